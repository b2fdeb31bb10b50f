"""Estimates how long a digest takes, for its time limit and for the run time that its job requests."""

# Decompressed bytes for each byte of a compressed capture, assumed for captures of headers.
COMPRESSED = 6
SUFFIXES = (".gz", ".zst", ".lz4")
# Minutes for each GiB of a capture. Measured on a shared core of an x86-64 machine: native takes less than 11 s for 691
# MiB. hybrid takes as long if few frames need tshark, and up to 60 times as long (17 minutes for a GiB) with other
# frames. tshark takes 7 s for a MiB of frames of 76 bytes (119 minutes for a GiB). The coefficients include a factor of
# two or more. A job requests this time as well, so larger coefficients would delay it on a cluster.
MINUTES_PER_GIB = {"native": 20, "hybrid": 60, "tshark": 240}


def decompressed(path: str, size: float) -> float:
    """Return the expected size of a file after decompression, in the unit of ``size``."""
    return size * COMPRESSED if path.endswith(SUFFIXES) else size


MAX_TIMEOUT_S = 10**6
REPORT_MINUTES_PER_GIB = 60  # of flow reports: 36 s for 111 MiB with 40,000 flows, times 10


def with_size(max_seconds: float, minutes_per_gib: float, captures: dict[str, int]) -> float:
    """Return a time limit in seconds. ``captures``: size in bytes of each capture, by path."""
    gib = sum(decompressed(path, size) for path, size in captures.items()) / (1 << 30)
    return max_seconds + 60 * minutes_per_gib * gib


def limit_s(max_seconds: float, engine: str, captures: dict[str, int]) -> float:
    """Return the time limit of a digest in seconds. ``captures``: size in bytes of each capture, by path."""
    return with_size(max_seconds, MINUTES_PER_GIB[engine], captures)
