"""Congestion verdicts in plain Python, frame by frame and byte range by byte range: docs/collect.md in loops."""

import itertools
import math
from collections import defaultdict

from acapella_core import schemas

NS = 10**9
WRAP = 2**32


def limits() -> dict:
    """Return the default thresholds."""
    keys = schemas.json_schema("config")["properties"]["analysis"]["properties"]["congestion"]["properties"]
    return {key: rule["default"] for key, rule in keys.items()}


def verdict(frames: list[dict], flows: list[dict], manifest: dict) -> dict:
    """Return the row that `acapella analyze` writes for a sample."""
    t, mirror = limits(), port_of(manifest, limits())
    capacity = mirror["capacity"]
    counted = balance(frames, mirror)
    usable = capacity is not None and mirror["whole"] and all(f["ts_ns"] is not None for f in frames)
    peak = counted["peak"]
    if capacity is None or (not usable and peak is None):
        return {"verdict": "unknown", "reason": None, "loss_low": None, "loss_high": None}
    if not usable:
        return {
            "verdict": "congested" if peak > capacity else "at risk",
            "reason": "counters",
            "loss_low": 0.0,
            "loss_high": 1.0,
        }
    runs = busy_runs(frames, mirror, t)
    found = Evidence(mirror, counted, runs, *tcp_bytes(frames, flows, mirror), frames)
    low, high = found.bounds(t)
    decided = found.decision(t)
    return {"verdict": decided[0], "reason": decided[1], "loss_low": min(low, high), "loss_high": max(low, high)}


class Evidence:
    """What is known of a sample whose capture is whole."""

    def __init__(self, mirror, counted, runs, seen, missing, frames):  # noqa: PLR0913, PLR0917
        self.mirror, self.counted, self.runs, self.seen, self.missing = mirror, counted, runs, seen, missing
        self.wire = sum(f["wire_len"] for f in frames)
        self.occupied = sum(f["wire_len"] + mirror["overhead"] for f in frames)
        tcp = [f for f in frames if f["tcp_seq"] is not None]
        self.tcp_share = sum(f["wire_len"] for f in tcp) / self.wire if self.wire else 0
        self.data_wire = sum(f["wire_len"] for f in tcp if f["payload_len"])
        self.payload = sum(f["payload_len"] or 0 for f in tcp)
        self.share = missing / (missing + seen) if missing + seen else None
        self.lacking = 1 - counted["captured"] / counted["low"] if counted["low"] else None

    def margin(self, t):
        """The error of the counters."""
        return t["margin_share"] + self.mirror["buffer"] / max(self.counted["low"], 1)

    def known(self, t):
        """Whether the gaps of TCP tell of all frames."""
        return self.share is not None and self.tcp_share >= t["tcp_share"]

    def bounds(self, t):
        """Return the least and the largest loss."""
        if not self.runs["periods"] and self.occupied:
            return 0.0, t["clear_share"]
        lows, highs = [0.0], [1.0]
        if self.runs["periods"]:
            if self.counted["inside"] and self.lacking is not None:
                lows.append(self.lacking - self.margin(t))
            if self.known(t):
                lost = self.missing * self.data_wire / self.payload
                lows.append(lost / (lost + self.wire) - t["tcp_margin_share"])
        if self.counted["high"] is not None:
            lost = 1 - self.counted["captured"] / self.counted["high"] if self.counted["high"] else 0
            highs.append(max(0, lost) + self.margin(t))
        if self.known(t):
            highs.append(self.share + 1 - self.tcp_share + t["tcp_margin_share"])
        line, capacity = self.mirror["line"], self.mirror["capacity"]
        if line is not None and line > capacity and self.occupied:
            most = (line - capacity) * self.runs["busy_ns"] / 8 / NS + self.mirror["buffer"]
            highs.append(1 - self.occupied / (self.occupied + most))
        return max(lows), min(highs)

    def expected(self):
        """Return the highest rate offered while the queue fills; None if that is not known."""
        peak, counted = self.counted["peak"], self.counted
        mean = self.occupied * 8 * NS / (self.mirror["end"] - self.mirror["start"])
        if self.runs["periods"] or peak is None or counted["high"] is None:
            return None
        if mean > 0:
            return self.runs["peak"] * (counted["ratio"] if counted["inside"] else max(1, peak / mean))
        return 0 if peak == 0 else None

    def decision(self, t):
        """Return the verdict and what decided."""
        periods, peak, buffer = self.runs["periods"], self.counted["peak"], self.mirror["buffer"]
        enough = self.missing >= t["tcp_missing_frames"] * t["frame_bytes"]
        if periods and self.share is not None and self.share >= t["tcp_congested_share"] and enough:
            return "congested", "TCP gaps"
        if periods and self.counted["inside"] and self.lacking is not None and self.lacking > self.margin(t):
            return "congested", "missing bytes"
        if peak is not None and peak > self.mirror["capacity"] * (1 + t["margin_share"]):
            return "congested", "counters"
        if self.runs["full"] >= t["full_buffers"] * buffer:
            return "congested", "full rate"
        clear = self.expected() is not None and max(peak, self.expected()) <= self.mirror["capacity"]
        reason = "busy periods" if periods else "peak below capacity" if clear else "peak rate"
        return ("clear" if clear else "at risk"), reason


def port_of(manifest: dict, t: dict) -> dict:
    """Return what the manifest knows of the mirror port."""
    said = manifest.get("congestion") or {}
    buffer = said.get("buffer_bytes")
    buffer = t["buffer_frames"] * t["frame_bytes"] if buffer is None else buffer
    dropped = (manifest["dropped_kernel"] or 0) + (manifest["dropped_interface"] or 0)
    captured = manifest["frames_captured"] or 0
    rate = manifest["port_rate_bps"]
    return {
        "capacity": said.get("capacity_bps") or None,
        "overhead": 24 if said.get("capacity_overhead_bytes") is None else said["capacity_overhead_bytes"],
        "counter": 4 if said.get("counter_overhead_bytes") is None else said["counter_overhead_bytes"],
        "buffer": buffer,
        "fill": t["fill_share"] * buffer,
        "readings": said.get("readings") or [],
        "start": manifest["actual"]["start_ns"],
        "end": manifest["actual"]["end_ns"],
        "line": rate and rate * (2 if manifest["direction"] == "both" else 1),
        "whole": not manifest["filter"] and (manifest.get("one_in") or 1) == 1 and manifest.get("p4") is None,
        "ratio": 1 + dropped / captured if captured else 1,
    }


def busy_runs(frames: list[dict], mirror: dict, t: dict) -> dict:
    """Walk over the halves of windows from the first frame to the last, empty ones too."""
    size = t["frame_bytes"] + mirror["overhead"]
    half_ns = max(1, round(t["window_frames"] * size * 4 * NS / mirror["capacity"]))
    deep = max(2, math.ceil(mirror["fill"] / (t["window_frames"] * size / 2)))
    halves = defaultdict(int)
    for frame in frames:
        halves[frame["ts_ns"] // half_ns] += frame["wire_len"] + mirror["overhead"]
    runs, run, peak = [], [], 0
    for half in sorted(halves):
        peak = max(peak, sum(halves.get(half - back, 0) for back in range(deep)))
        window = halves[half] + halves.get(half - 1, 0)
        busy = window >= t["busy_share"] * mirror["capacity"] * half_ns * 2 / 8 / NS
        if run and (not busy or run[-1] != half - 1):
            runs.append(run)
            run = []
        if busy:
            run.append(half)
    runs += [run] if run else []
    found = {"periods": 0, "busy_ns": 0, "full": 0, "peak": peak * 8 * NS / (deep * half_ns)}
    for run in runs:
        total = sum(halves[half] for half in run) + halves.get(run[0] - 1, 0)
        if total >= mirror["fill"]:
            found["periods"] += 1
            found["busy_ns"] += (len(run) + 1) * half_ns
        inner = sum(halves[half] for half in run[:-1])
        if len(run) > 1 and inner * 8 * NS >= t["full_share"] * mirror["capacity"] * (len(run) - 1) * half_ns:
            found["full"] = max(found["full"], total)
    return found


def tcp_bytes(frames: list[dict], flows: list[dict], mirror: dict) -> tuple[int, int]:
    """Return payload bytes of TCP seen at least once, and those between that never were, from lists of ranges."""
    speed = max(10 * mirror["capacity"], 2 * (mirror["line"] or 0), 10**9) / 8 / NS
    seen_in_all, missing_in_all = 0, 0
    for flow in flows:
        ranges, stretches, here, last = [], [], None, None
        for frame in frames:
            own = frame["flow"] == flow["flow"] and frame["tcp_seq"] is not None
            syn = own and bool(frame["tcp_flags"] & 2)
            if own and (frame["payload_len"] or syn):
                number, length = frame["tcp_seq"] + syn, frame["payload_len"] or 0
            elif (
                frame["flow"] is not None
                and flow["flow"] == flows[frame["flow"]]["peer_flow"]
                and frame["tcp_ack"] is not None
                and not frame["tcp_flags"] & 6
            ):
                number, length, own = frame["tcp_ack"], 0, False
            else:
                continue
            step = None if last is None else (number - last[0] + WRAP // 2) % WRAP - WRAP // 2
            if syn or step is None or abs(step) > 2**20 + max(0, frame["ts_ns"] - last[1]) * speed:
                here = {"at": number, "first": None, "last": number}
                stretches.append(here)
            else:
                here["at"] += step
            last = (number, frame["ts_ns"])
            here["last"] = max(here["last"], here["at"] + length)
            if length:
                here["first"] = here["at"] if here["first"] is None else min(here["first"], here["at"])
                ranges.append((number % WRAP, length))
        if any(here["first"] is not None for here in stretches):
            seen = covered(ranges)
            spans = sum(max(0, here["last"] - here["first"]) for here in stretches if here["first"] is not None)
            seen_in_all += seen
            missing_in_all += max(0, spans - bool(flow["fin"]) - seen)
    return seen_in_all, missing_in_all


def covered(ranges: list[tuple[int, int]]) -> int:
    """Return how many sequence numbers lie in at least one range, modulo 2^32."""
    pieces = []
    for start, length in ranges:
        pieces += [(start, min(WRAP, start + length))] + ([(0, start + length - WRAP)] if start + length > WRAP else [])
    total, end = 0, 0
    for start, stop in sorted(pieces):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def balance(frames: list[dict], mirror: dict) -> dict:
    """Compare what the counters counted with what was captured, interval by interval."""
    start, end, rows = mirror["start"], mirror["end"], []
    size = [(min(max(f["ts_ns"], start), end - 1), (f["wire_len"] + mirror["counter"]) * mirror["ratio"])
            for f in frames if f["ts_ns"] is not None and start is not None]  # fmt: skip
    captured = sum(octets for _, octets in size)
    readings = sorted(mirror["readings"])
    for (a, before), (b, after) in itertools.pairwise(readings):
        if b > start and a < end:
            inside = a >= start and b <= end
            got = sum(octets for at, octets in size if a <= at < b)
            rows.append((inside, (min(b, end) - max(a, start)) / (b - a), after - before, got, b - a))
    within = [row for row in rows if row[0]]
    counted, got = sum(row[2] for row in within), sum(row[3] for row in within)
    low = high = counted
    for inside, share, ticks, own, _ in rows:
        if not inside:
            alike = own * counted / got if within and got else own
            most = own * counted / got if got else ticks
            low += max(own, min(ticks, share * ticks, alike))
            high += max(own, min(ticks, max(share * ticks, most))) if within else max(own, ticks)
    whole = bool(readings) and readings[0][0] <= start and readings[-1][0] >= end
    ratios = [row[2] / row[3] for row in within if row[3] and row[2] > row[3] + mirror["buffer"]]
    return {
        "captured": captured,
        "low": max(captured, low),
        "high": max(captured, high) if whole else None,
        "inside": bool(within),
        "ratio": max(ratios, default=1),
        "peak": max((row[2] * 8 * NS / row[4] for row in rows), default=None),
    }
