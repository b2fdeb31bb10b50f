"""Acapella's analysis: captures in, acaps, tables and figures out."""


def __getattr__(name: str) -> str:
    """`__version__`, looked up where it is asked for: importlib.metadata takes as long as all else of a start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("acapella")
    except PackageNotFoundError:  # run from a tree that is not installed
        return "0+uninstalled"
