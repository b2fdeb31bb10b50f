"""Search an anonymized capture for values that must have been replaced."""

from pathlib import Path

from acapella_testing.frames.pcap_files import records, write_pcap
from acapella_testing.frames.release_frames import KEY
from acapella_testing.release_records import pcap

from acapella_core import _native
from acapella_core.anonymize import anonymize


def find_leak(directory: Path, originals: list[bytes], change=None) -> tuple | None:
    """Anonymize frames, change the result, and return what the search finds."""
    true, public = write_pcap(directory / "true.pcap", list(enumerate(originals))), directory / "public.pcap"
    counts = anonymize(str(true), public, KEY)
    if change:
        pairs = enumerate(zip(originals, [frame for *_, frame in records(public.read_bytes())], strict=True))
        public.write_bytes(pcap([(len(old), change(n, old, new)) for n, (old, new) in pairs]))
    return search(true, public, counts["replaced"])


def search(true: Path, public: Path, replaced: dict, vendors=None) -> tuple | None:
    """Return what the search of a release finds in a capture; None if there is no leak."""
    leaks = _native.LeakSearch()
    leaks.add(**replaced)
    found = leaks.find(str(true), str(public), vendors, _native.Windows([], whole=True))
    return found or leaks.find_unexplained(str(true))


def restore_original(begin: int, end: int):
    """Return a function that restores bytes of the original frame in the released one."""
    return lambda n, original, kept: kept[:begin] + original[begin:end] + kept[end:]
