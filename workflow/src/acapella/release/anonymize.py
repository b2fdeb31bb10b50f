"""Copy a capture without payload and with pseudonyms for addresses.

    acapella anonymize --new-key campaign.key
    acapella anonymize IN.pcap -o OUT.pcap --key-file campaign.key

Truncates every frame after the last header that the core knows. IPv4 and IPv6 addresses, including those in tunnels,
options, ARP, neighbor discovery and packets quoted by ICMP, are replaced by Crypto-PAn: addresses with a common prefix
have pseudonyms with a common prefix of the same length. MAC addresses are replaced by distinct pseudonyms, and tunnel
identifiers (VNI, GRE key, TEID and others) by a keyed permutation per type. IN is a pcap or pcapng file, optionally
compressed, or - for standard input. OUT is a pcap file with the frames, their timestamps and lengths, but no other
metadata of IN. docs/release.md describes what is kept of each header, and what a reader can still learn.

The key is 32 bytes in a file that only its owner may read. Use one key per campaign: captures with the same key have
the same pseudonyms. Anyone with the key can recover the addresses.
"""

import argparse
import json

from acapella_core import decompression, names
from acapella_core.anonymize import MACS
from acapella_core.arguments import output_file
from acapella_core.errors import UserError


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella anonymize`."""
    parser = subparsers.add_parser(
        "anonymize",
        help="copy a capture without payload and with pseudonyms for addresses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="IN", nargs="?", help="pcap or pcapng, optionally compressed; - for standard input"
    )
    parser.add_argument(
        "-o", dest="target", metavar="OUT.pcap", type=output_file("a capture"), help="anonymized capture to write"
    )
    keys = parser.add_mutually_exclusive_group(required=True)
    keys.add_argument("--key-file", metavar="FILE", help="key of the campaign")
    keys.add_argument("--new-key", metavar="FILE", help="create a key in a new file; takes no IN")
    add_macs(parser)
    decompression.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print the counts as JSON on standard output")
    return parser


def add_macs(parser: argparse.ArgumentParser) -> None:
    """Add the option for MAC addresses, shared with `acapella release`."""
    parser.add_argument(
        "--macs",
        choices=MACS,
        default="replace",
        help="MAC addresses: a pseudonym for each (default), or zeros except for the first four bits, the "
        "local bit and the group bit",
    )


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads a capture."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(args.target, args.new_key, starts=True)


def run(args: argparse.Namespace) -> int:
    """Anonymize one capture or create a key. Return the exit code, which is 1 if the capture is damaged."""
    from acapella_core import anonymize as core  # noqa: PLC0415

    if args.new_key:
        if args.source or args.target:
            fix = "first create the key with --new-key FILE, then specify it with --key-file FILE"
            raise UserError("--new-key takes no capture", fix=fix)
        core.make_key(args.new_key)
        return 0
    if not (args.source and args.target):
        raise UserError("a capture and an output file are required", fix="acapella anonymize IN -o OUT --key-file FILE")
    counts = anonymize(args.source, args.target, core.read_key(args.key_file), args.macs, decompression.limits_of(args))
    if args.json:
        print(json.dumps({key: value for key, value in counts.items() if key != "replaced"}))
    else:
        print(f"{args.target}: {summary(counts)}")
    return report_faults(args.source, counts)


def anonymize(source: str, target, key: bytes, macs: str, limits=None) -> dict:
    """Run acapella_core.anonymize.anonymize with the vendors of the installed tshark, if any; return its counts."""
    from acapella.common import vendors  # noqa: PLC0415
    from acapella_core import anonymize as core  # noqa: PLC0415

    installed_vendors = vendors.find()
    counts = core.anonymize(
        source, target, key, macs=macs, vendors=installed_vendors.core if installed_vendors else None, limits=limits
    )
    return counts | {"vendors": installed_vendors.metadata() if installed_vendors else None}


def summary(counts: dict) -> str:
    """Return the counts in one line."""
    frames, truncated = (names.pluralize(counts[name], "frame") for name in ("frames", "cut_frames"))
    return (
        f"{frames}, {counts['kept_bytes']:,} of {counts['captured_bytes']:,} captured bytes kept; "
        f"{truncated} truncated, {counts['empty_frames']:,} without any header kept"
    )


def report_faults(source: str, counts: dict) -> int:
    """Print the faults of the capture on standard error and return the exit code."""
    from acapella.common.faults import DAMAGING, describe_fault  # noqa: PLC0415
    from acapella.digest.command import name_of, written_frames  # noqa: PLC0415

    source_name = name_of([source])
    if counts["file_issue"] is not None:
        names.report(f"acapella: warning: {source_name}: {describe_fault(counts)}; {written_frames(counts['frames'])}")
    if counts["ts_not_kept"]:
        names.report(
            f"acapella: warning: {source_name}: {names.pluralize(counts['ts_not_kept'], 'timestamp')} "
            "outside the years 1970 to 2106"
        )
    return 1 if counts["file_issue"] in DAMAGING else 0
