"""How many bytes of disk an acap needs for a frame."""

from .programs import Bench, digest_words, outputs


def run(bench: Bench) -> list[dict]:
    """iperf-like traffic: bulk TCP in frames of 1514 bytes and acknowledgments of 66, jittered nanosecond stamps."""
    rows = []
    for profile, goal in (("iperf", "<= 20"), ("fabric", "")):
        frames = bench.scale["size"]
        with bench.generated(frames, profile) as source:
            bench.measure(digest_words("-", bench.directory, "native"), source=source)
        acap, flows = (path.stat().st_size for path in outputs(bench.directory, "native"))
        note = f"{frames:,} frames; flow table {flows / frames:.2f} bytes a frame"
        rows.append(
            {"measured": f"acap, {profile}", "value": acap / frames, "unit": "bytes/frame", "goal": goal, "note": note}
        )
    return rows
