"""Limits on decompression, the same options for every command that reads captures.

A capture that exceeds a limit ends there: earlier frames are complete, and the file issue is `decompression_limit`.
"""

import argparse

from .arguments import size_bytes
from .errors import UserError

# equal to the core's defaults (input/decoder.hpp)
MAX_DECOMPRESSED = "1T"
MAX_RATIO = 10_000
RATIO_LIMIT = 2**32 - 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --max-decompressed and --max-ratio."""
    group = parser.add_argument_group("limits on compressed captures")
    group.add_argument(
        "--max-decompressed",
        metavar="SIZE",
        default=MAX_DECOMPRESSED,
        help="read at most SIZE decompressed bytes of a capture, such as 500G; K, M, G and T are powers of 1024 "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--max-ratio",
        metavar="N",
        type=int,
        default=MAX_RATIO,
        help="maximum ratio of decompressed to compressed bytes, ignored up to 16M decompressed (default: %(default)s)",
    )


def limits_of(args: argparse.Namespace):
    """Return the limits of a command line as an object of the core. Raises UserError."""
    return limits(args.max_decompressed, args.max_ratio)


def limits(max_decompressed: str, max_ratio: int):
    """Return the limits as an object of the core. Raises UserError."""
    from . import _native  # noqa: PLC0415 - so that `--help` starts quickly

    if not 1 <= max_ratio <= RATIO_LIMIT:
        raise UserError(f"--max-ratio takes a whole number from 1 to {RATIO_LIMIT}", where=max_ratio)
    return _native.DecompressionLimits(size_bytes(max_decompressed), max_ratio)
