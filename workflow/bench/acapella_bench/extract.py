"""Measures the time to extract 1,000 frames spread over a large capture: uncompressed, and as seekable zstd."""

from pathlib import Path

import pyarrow as pa

from .programs import Bench, acapella, digest_words, outputs

SELECTED = 1000
TRAFFIC = ("iperf", "--snaplen", 1514)  # profile and options of acapella-generate: 1,047 bytes per record
ZSTD_FRAME = 2 << 20  # decompressed bytes
GOALS = {"pcap": "< 1", "zstd": "< 3"}


def run(bench: Bench) -> list[dict]:
    """Return the wall time of the second of two runs for each form of the capture, when its pages are cached."""
    frames = bench.scale["extract"]
    capture = bench.generate(frames, *TRAFFIC)
    capture_bytes = capture.stat().st_size
    rows = measure(bench, capture, frames, capture_bytes, "pcap")
    capture.unlink()  # before the next one is written, to save space
    packed = capture.with_suffix(".pcap.zst")
    with bench.generated(frames, *TRAFFIC) as source:
        compress(source, packed)
    rows += measure(bench, packed, frames, capture_bytes, "zstd")
    packed.unlink()
    return rows


def measure(bench: Bench, capture: Path, frames: int, capture_bytes: int, form: str) -> list[dict]:
    """Digest a capture, and extract every n-th frame of it."""
    bench.measure(digest_words(capture, bench.directory, "native"), any_core=True)
    acap, flows = outputs(bench.directory, "native")
    step = max(frames // SELECTED, 1)
    selected = range(step, frames + 1, step)[:SELECTED]
    words = acapella("extract", capture, "--acap", acap, "--frames", ",".join(map(str, selected)))
    output = bench.directory / "extracted.pcapng"
    first = bench.measure([*words, "-o", output])
    second = bench.measure([*words, "-o", output])
    for path in (acap, flows, output):
        path.unlink()
    note = f"{len(selected):,} of {frames:,} frames, {capture_bytes / 1e9:.1f} GB without compression; "
    note += f"CPU {second.cpu_s:.2f} s, first run {first.wall_s:.2f} s, peak {second.peak_mib:.0f} MiB"
    return [{"measured": form, "value": second.wall_s, "unit": "s", "goal": GOALS[form], "note": note}]


def compress(source: int, packed: Path) -> None:
    """Compress the capture that a descriptor provides, in independent frames of zstd."""
    codec = pa.Codec("zstd", compression_level=1)
    with open(source, "rb", closefd=False) as capture, packed.open("wb") as target:
        while piece := capture.read(ZSTD_FRAME):
            target.write(codec.compress(piece, asbytes=True))
