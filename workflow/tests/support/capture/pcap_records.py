"""Read nanosecond pcap files without the core."""

from pathlib import Path

from acapella_testing.frames import pcap_files

MAC_BYTES = 12


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """Return timestamp (ns), wire length and captured bytes of each frame."""
    return pcap_files.records(path.read_bytes())


def frames(path: Path) -> list[tuple[int, bytes]]:
    """Return timestamp (ns) and bytes of each frame, none of them truncated."""
    found = records(path)
    assert all(length == len(frame) for _, length, frame in found)
    return [(stamp, frame) for stamp, _, frame in found]


def contents(path: Path) -> list[bytes]:
    """Return each frame without its MAC addresses."""
    return [frame[MAC_BYTES:] for _, frame in frames(path)]
