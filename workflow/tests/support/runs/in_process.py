"""Commands that a test runs in its own process, and functions that are extended during a test."""

import argparse
from collections.abc import Callable
from types import ModuleType

import pytest


def parsed(module: ModuleType, *words: object) -> argparse.Namespace:
    """Return the parsed arguments of the command that a module implements."""
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args([str(word) for word in words])


def call_before(patch: pytest.MonkeyPatch, owner: object, name: str, action: Callable) -> None:
    """Have each call of a function of an object call an action first, with the same arguments."""
    original = getattr(owner, name)

    def extended(*arguments: object, **options: object) -> object:
        action(*arguments, **options)
        return original(*arguments, **options)

    patch.setattr(owner, name, extended)
