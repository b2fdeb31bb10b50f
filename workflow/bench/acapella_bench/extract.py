"""Time to extract 1,000 frames spread over a large capture: not compressed, and in frames of zstd (seekable zstd)."""

from pathlib import Path

import pyarrow as pa

from .programs import Bench, acapella, digest_words, outputs

SELECTED = 1000
ZSTD_FRAME = 2 << 20  # decompressed bytes
GOALS = {"pcap": "< 1", "zstd": "< 3"}


def run(bench: Bench) -> list[dict]:
    """Return the wall time of the second of two runs for each form of the capture, so that its pages are cached."""
    frames = bench.scale["extract"]
    capture = bench.generate(frames, "iperf")
    capture_bytes = capture.stat().st_size
    rows = measure(bench, capture, frames, capture_bytes, "pcap")
    packed = capture.with_suffix(".pcap.zst")
    compress(capture, packed)
    capture.unlink()
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
    note += f"first run {first.wall_s:.2f} s, peak {second.peak_mib:.0f} MiB"
    return [{"measured": form, "value": second.wall_s, "unit": "s", "goal": GOALS[form], "note": note}]


def compress(capture: Path, packed: Path) -> None:
    """Compress a capture in independent frames of zstd."""
    codec = pa.Codec("zstd", compression_level=1)
    with capture.open("rb") as source, packed.open("wb") as target:
        while piece := source.read(ZSTD_FRAME):
            target.write(codec.compress(piece, asbytes=True))
