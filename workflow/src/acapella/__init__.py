"""Acapella's analysis: captures in, acaps, tables and figures out."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("acapella")
except PackageNotFoundError:  # run from a tree that is not installed
    __version__ = "0+uninstalled"
