"""Keeps pyarrow from importing pandas, which it does for its first array if pandas is installed (0.2 s).

Acapella does not use pandas. FABRIC's client and Snakemake's plugin for Slurm install it.
"""

import sys


class _Refusal:
    """Finder of modules (importlib.abc.MetaPathFinder) for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path=None, _target=None) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not imported by the command line", name=name)


def prevent() -> None:
    """Make imports of pandas fail in this process."""
    sys.meta_path.insert(0, _Refusal)


def allow() -> None:
    """Undo prevent()."""
    if _Refusal in sys.meta_path:
        sys.meta_path.remove(_Refusal)
