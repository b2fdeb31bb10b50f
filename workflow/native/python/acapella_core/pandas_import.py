"""Keeps pyarrow from importing pandas, which it does for its first array if pandas is installed (0.2 s).

Acapella does not use pandas. FABRIC's client and Snakemake's plugin for Slurm install it.
"""

import sys
from importlib.machinery import ModuleSpec


class _Refusal:
    """Finder and loader of pandas (importlib.abc.MetaPathFinder, Loader) that cannot load it."""

    @classmethod
    def find_spec(cls, name: str, _path=None, _target=None) -> ModuleSpec | None:
        """Return a specification whose loader fails; None for other modules."""
        return ModuleSpec(name, cls) if name == "pandas" else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Raise ModuleNotFoundError."""
        raise ModuleNotFoundError("the command line does not import pandas", name=spec.name)

    @staticmethod
    def exec_module(_module) -> None:
        """Required by the protocol; create_module() has failed."""


def prevent() -> None:
    """Make imports of pandas fail in this process."""
    sys.meta_path.insert(0, _Refusal)


def allow() -> None:
    """Undo prevent()."""
    if _Refusal in sys.meta_path:
        sys.meta_path.remove(_Refusal)
