"""Print the size of a cache of digests, and remove digests from it.

    acapella campaign cache ~/acapella-cache
    acapella campaign cache ~/acapella-cache --max-size 50G --unused-days 90

The least recently used digests are removed first. Files left by interrupted runs are removed, too. A campaign whose
digests were removed computes them again when it runs. Until then, queries of its frames (acapella sql, acapella
extract) fail; its tables and figures remain. Do not remove digests while a campaign that uses the cache is running,
because the campaign could then not read them.
"""

import argparse
import contextlib
import re
import time
from collections.abc import Sequence
from pathlib import Path

from acapella.digest import cache
from acapella_core import names
from acapella_core.arguments import size_bytes
from acapella_core.errors import UserError

DAY_NS = 24 * 3600 * 10**9
LOCATION = f"specify the directory in the config (digest: {{cache: DIR}}) or in {cache.LOCATION}"
SHARD = re.compile("[0-9a-f]{2}")  # names of directories that a pruned cache retains
CONSEQUENCE = "; to query frames of campaigns with these digests again: run snakemake, which needs their captures"
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
UNIT_STEP = 1024


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign cache`."""
    parser = subparsers.add_parser("cache", help="print the size of a cache of digests; prune it", description=__doc__)
    parser.add_argument("cache", metavar="DIR", type=Path, help="directory of the cache")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="remove digests until the cache has at most this size, such as 50G (default: unlimited)",
    )
    parser.add_argument(
        "--unused-days", metavar="N", type=float, help="remove digests not used for N days (default: keep them)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the size of the cache; remove digests if a limit is given."""
    if not args.cache.is_dir():
        raise UserError("no such directory", where=args.cache, fix=LOCATION)
    max_bytes = None if args.max_size is None else size_bytes(args.max_size)
    since_ns = None if args.unused_days is None else time.time_ns() - int(args.unused_days * DAY_NS)
    all_digests = cache.digests(args.cache)
    if not all_digests and not all(SHARD.fullmatch(path.name) for path in args.cache.iterdir()):
        raise UserError("not a cache: it contains other files, and no digests", where=args.cache, fix=LOCATION)
    removed = cache.prunable(all_digests, max_bytes=max_bytes, unused_since_ns=since_ns)
    prunes = max_bytes is not None or since_ns is not None
    if prunes and not args.dry_run:
        cache.remove_orphans(args.cache, time.time_ns() - DAY_NS)
        for entry in (entry for digest in removed for entry in digest.entries):
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                cache.discard(entry)
    print(names.shown(f"{args.cache}: {describe(all_digests)}"))
    if prunes:
        what = "would be removed" if args.dry_run else "removed"
        print(f"{what}: {describe(removed)}{CONSEQUENCE if removed else ''}")


def describe(found: Sequence[cache.Digest]) -> str:
    """Return the number of digests and their size."""
    size = format_size(sum(digest.size_bytes for digest in found))
    return f"{len(found)} digest{'' if len(found) == 1 else 's'}, {size}"


def format_size(size_bytes: float) -> str:
    """Return a size with a binary unit (KiB, MiB, ...), or in bytes if it is smaller than 1 KiB."""
    unit = 0
    while size_bytes >= UNIT_STEP and unit < len(UNITS) - 1:
        size_bytes, unit = size_bytes / UNIT_STEP, unit + 1
    return f"{size_bytes:.1f} {UNITS[unit]}" if unit else f"{size_bytes:.0f} bytes"
