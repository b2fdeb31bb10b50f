"""Acapella's analysis: convert captures to acaps, tables and figures."""


def __getattr__(name: str) -> str:
    """Return `__version__`, which is determined on access because importing importlib.metadata is slow."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("acapella")
    except PackageNotFoundError:  # the package is not installed
        return "0+uninstalled"
