"""Argument parser with error messages of one line."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import PurePath
from typing import NoReturn

from . import names
from .errors import UserError

SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
LARGEST_SIZE = 2**63 - 1
EXTENSIONS = {  # formats -> extensions of files, the usual one first
    "Parquet": (".parquet", ".pq"),
    "JSON": (".json",),
    "JSON Lines": (".jsonl", ".ndjson"),
    "CSV": (".csv",),
    "TSV": (".tsv", ".tab"),
    "a capture": (".pcapng", ".pcap", ".cap"),
    "text": (".txt", ".log", ".md"),
    "YAML": (".yaml", ".yml"),
    "HTML": (".html", ".htm"),
    "a spreadsheet": (".xlsx", ".xls", ".ods"),
    "a database": (".duckdb", ".db", ".sqlite"),
    "compressed": (".gz", ".zst", ".lz4", ".bz2", ".xz", ".zip"),
}
MAX_DIGITS = 40  # maximum for a size; Python rejects numbers with thousands of digits


def size_bytes(text: str) -> int:
    """Return a size such as ``2G`` or ``512M`` (powers of 1024) in bytes. Raises UserError."""
    found = SIZE.fullmatch(text.strip()) if len(text) <= MAX_DIGITS else None
    size = int(Fraction(found[1]) * SIZES[found[2].upper()]) if found else 0
    if not 1 <= size <= LARGEST_SIZE:
        raise UserError(f"{text!r} is not a size", fix=f"write 2G or 512M; at most {LARGEST_SIZE // SIZES['T']}T")
    return size


def output_file(form: str, kind: Callable = str, advice: str = "") -> Callable:
    """Return the argparse type of an output file in a format, one of `EXTENSIONS`: ``kind`` of its name.

    The type rejects a name with the extension of another format, because programs that open the file rely on it.
    ``advice``: how to get other formats.
    """

    def checked(name: str):
        extension = PurePath(name).suffix.lower()
        found = next((known for known, extensions in EXTENSIONS.items() if extension in extensions), form)
        if found != form:
            stem = PurePath(name).with_suffix("")  # trace.pcap of trace.pcap.gz
            example = (stem if stem.suffix in EXTENSIONS[form] else stem.with_suffix(EXTENSIONS[form][0])).name
            message = f"{names.shown(name)}: the output is {form}, not {found}; choose a name such as {example}"
            raise argparse.ArgumentTypeError(f"{message}; {advice}" if advice else message)
        return kind(name)

    return checked


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that prints one-line errors without the usage and exits with 2, as do its subparsers."""

    _intermixed = False  # whether positional arguments are parsed apart from options

    def error(self, message: str) -> NoReturn:
        """Report an error in the command line and exit."""
        command, _, stage = self.prog.partition(" ")
        what = f"{stage}: {message}" if stage else message
        line = f"{command}: error: {what}; see {self.prog} --help"
        names.report(" ".join(line.split()))
        sys.exit(2)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None):
        """Parse as argparse does, but report unknown arguments in the subparser, so that its name is in the message.

        Unknown options are reported before missing required options, because one may be misspelled. Options may be
        between positional arguments: argparse does not support this, so in that case the options are parsed first.
        """
        if self._intermixed:
            return super().parse_known_args(args, namespace)
        if self._subparsers is None:
            self._check_options(sys.argv[1:] if args is None else args)
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and self._subparsers is None:
            self._intermixed = True
            known, unknown = self.parse_known_intermixed_args(args, namespace)
            self._intermixed = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def _check_options(self, words: Sequence[str]) -> None:
        """Report the first unknown long option, and the most similar known one."""
        for word in words:
            if word == "--":
                return
            name = word.partition("=")[0]
            known = [option for option in self._option_string_actions if option.startswith("--")]
            if not name.startswith("--") or " " in word or any(option.startswith(name) for option in known):
                continue
            near = difflib.get_close_matches(name, known, n=1)
            self.error(f"unrecognized arguments: {word}" + (f" (did you mean {near[0]}?)" if near else ""))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Check a value as argparse does. The error names the most similar choice, or all choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else f"; choose from {', '.join(choices)}"
        raise argparse.ArgumentError(action, f"{value!r} is unknown{hint}")
