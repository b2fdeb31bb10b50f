"""Measures engine native: from a capture of 200-byte frames to zstd Parquet with all columns, and flows."""

import json

from .programs import Bench, Measured, digest_words, native_program

AIM = 4_000_000  # frames per second


def run(bench: Bench) -> list[dict]:
    """Return the rate of the whole digest, the shares of its stages, and peak memory.

    Stages are measured by passes that do an increasing part of the work (acapella-stages) on the same core and file.
    Writing is the time beyond the last pass, with Parquet and Python. Shares are of CPU time.
    """
    frames = bench.scale["native"]
    capture, short_capture = bench.generate(frames), bench.generate(1000)
    bench.measure(digest_words(short_capture, bench.directory, "native"))  # loads modules into the page cache
    start = bench.measure(digest_words(short_capture, bench.directory, "native"))
    digest = bench.measure(digest_words(capture, bench.directory, "native"))
    stages = bench.measure([native_program("acapella-stages"), capture], keep=True)
    return rows_of(frames, start, digest, json.loads(stages.stdout))


def rows_of(frames: int, start: Measured, digest: Measured, stages: dict) -> list[dict]:
    """Return the rows of the table."""
    work_s = digest.cpu_s - start.cpu_s
    parts_s = {
        "reading": stages["read_s"],
        "parsing": stages["dissect_s"] - stages["read_s"],
        "flows and columns": stages["digest_s"] - stages["dissect_s"],
        "writing": work_s - stages["digest_s"],
    }
    rows = [
        {"measured": "frames", "value": frames, "unit": "frames", "note": "at most 200 bytes, 6,000 directed flows"},
        {
            "measured": "rate, one core",
            "value": round(frames / digest.wall_s),
            "unit": "frames/s",
            "goal": f">= 2,500,000, aim {AIM:,}",
            "note": f"{digest.wall_s:.1f} s, including {start.wall_s:.2f} s for the start of Python",
        },
        {
            "measured": "rate by CPU time",
            "value": round(frames / work_s),
            "unit": "frames/s",
            "note": "without the start; the rate if the core did nothing else",
        },
    ]
    for part, seconds in parts_s.items():
        note = f"{seconds / frames * 1e9:.0f} ns per frame"
        rows.append({"measured": f"share of {part}", "value": 100 * seconds / work_s, "unit": "%", "note": note})
    rows.append({"measured": "peak memory", "value": digest.peak_mib, "unit": "MiB", "goal": "< 512"})
    return rows
