"""Evidence of congestion in plain Python, by loops over frames and byte ranges, as defined in docs/collect.md."""

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


def evidence(frames: list[dict], flows: list[dict], manifest: dict) -> dict:
    """Return columns of table congestion that contain evidence; the verdict and its bounds are not computed."""
    t, mirror = limits(), port_of(manifest, limits(), frames)
    times, late_ns = arrivals(frames, mirror)
    stretches = waiting(frames, times, late_ns, mirror)
    runs = busy_runs(frames, times, mirror, t, stretches)
    tcp_flows = tcp_bytes(frames, flows, mirror)
    return {
        "late_ns": late_ns,
        "filling_bytes": min(
            filling(frames, times, late_ns, mirror), round(max((queued for _, _, queued in stretches), default=0))
        ),
        "busy_periods": len(runs["spans"]),
        "longest_full_bytes": int(runs["full"]),
        "tcp_seen_bytes": sum(seen for seen, _ in tcp_flows),
        "tcp_missing_bytes": sum(missing for _, missing in tcp_flows),
        **id_gaps(frames, times, runs, t),
        **balance(frames, mirror),
    }


def port_of(manifest: dict, t: dict, frames: list[dict]) -> dict:
    """Return the properties of the mirror port according to manifest and capture."""
    recorded = manifest.get("congestion") or {}
    overhead = 24 if recorded.get("capacity_overhead_bytes") is None else recorded["capacity_overhead_bytes"]
    longest = max([t["frame_bytes"], *(f["wire_len"] for f in frames)])
    share, buffer = 1.0, recorded.get("buffer_bytes")
    if buffer is None:
        share, buffer = t["fill_share"], t["buffer_frames"] * longest
    dropped = (manifest["dropped_kernel"] or 0) + (manifest["dropped_interface"] or 0)
    rate = manifest["port_rate_bps"]
    return {
        "capacity": recorded.get("capacity_bps") or None,
        "overhead": overhead,
        "counter": 4 if recorded.get("counter_overhead_bytes") is None else recorded["counter_overhead_bytes"],
        "longest": longest + overhead,
        "fill": max(64, min(share * buffer, buffer - longest - overhead)),
        "readings": recorded.get("readings") or [],
        "start": manifest["actual"]["start_ns"],
        "end": manifest["actual"]["end_ns"],
        "rate": rate,
        "line": rate if manifest["direction"] == "rx" else math.inf,  # the senders' total rate is unknown
        "port": rate if recorded.get("buffer_bytes") else None,
        "ratio": 1 + dropped / len(frames) if frames else 1,
    }


def arrivals(frames: list[dict], mirror: dict) -> tuple[list[int], int]:
    """Return the latest time at which each frame can have been sent, and the longest timestamp delay (ns).

    Times are computed backwards from the last frame.
    """
    times, late, following, start = [], 0, None, mirror["start"]
    for frame in reversed(frames):
        at = frame["ts_ns"] - start
        if following is not None:
            at = min(at, following[0] - (following[1] + mirror["overhead"]) * 8 * NS / mirror["capacity"])
        late = max(late, frame["ts_ns"] - start - at)
        following = (at, frame["wire_len"])
        times.append(at)
    return [start + round(at) for at in reversed(times)], round(late)


def filling(frames: list[dict], times: list[int], late_ns: int, mirror: dict) -> int:
    """Return an upper limit of the bytes in any interval that is as long as a full queue takes to drain, plus late_ns.

    Bytes are counted in cells of 1/32 of that time.
    """
    whole_ns = mirror["fill"] * 8 * NS / mirror["capacity"]
    cell_ns = max(1, round(whole_ns / 32))
    number = math.ceil(32 + late_ns / (whole_ns / 32)) + 1
    cells = defaultdict(int)
    for frame, at in zip(frames, times, strict=True):
        cells[at // cell_ns] += frame["wire_len"] + mirror["overhead"]
    return max((sum(cells.get(last - back, 0) for back in range(number)) for last in list(cells)), default=0)


def waiting(frames: list[dict], times: list[int], late_ns: int, mirror: dict) -> list[tuple[int, int, float]]:
    """Return first and last time of each period without a pause, and the maximum number of bytes queued in it."""
    per_ns, found, here = mirror["capacity"] / 8 / NS, [], []
    allowed, before, known = late_ns + mirror["longest"] / per_ns, mirror["start"], False
    for frame, at in sorted(zip(frames, times, strict=True), key=lambda pair: (pair[1], pair[0]["frame"])):
        size = frame["wire_len"] + mirror["overhead"]
        if at - before - size / per_ns > allowed or not here:
            known = known or at - before - size / per_ns > allowed
            here, flows, sent = [at, at, 0], defaultdict(int), 0
            found.append(here)
        before, sent = at, sent + size
        if frame["flow"] is not None:
            flows[frame["flow"]] += size
        arriving_ns = 0.0
        if known and mirror["port"]:
            over_one = max(0, *flows.values(), 0) - mirror["longest"]
            over_all = sent - 2 * mirror["longest"]
            arriving_ns = max(0, over_one * 8 * NS / mirror["port"], over_all * 8 * NS / mirror["line"])
        here[1:] = at, max(here[2], sent - arriving_ns * per_ns)
    return [tuple(stretch) for stretch in found]


def busy_runs(frames: list[dict], times: list[int], mirror: dict, t: dict, stretches: list) -> dict:
    """Return runs of busy windows. Windows start every half window from first to last frame, even if they are empty."""
    usual = t["window_frames"] * (t["frame_bytes"] + mirror["overhead"])
    half_ns = max(1, round(max(usual, mirror["longest"] / (1 - t["busy_share"])) * 4 * NS / mirror["capacity"]))
    halves = defaultdict(int)
    for frame, at in zip(frames, times, strict=True):
        halves[at // half_ns] += (frame["wire_len"] + mirror["overhead"]) * mirror["ratio"]
    runs, run = [], []
    for half in sorted(halves):
        window = halves[half] + halves.get(half - 1, 0)
        busy = window >= t["busy_share"] * mirror["capacity"] * half_ns * 2 / 8 / NS
        if run and (not busy or run[-1] != half - 1):
            runs.append(run)
            run = []
        if busy:
            run.append(half)
    runs += [run] if run else []
    found = {"spans": [], "full": 0}
    for run in runs:
        total = sum(halves[half] for half in run) + halves.get(run[0] - 1, 0)
        start, end = (run[0] - 1) * half_ns, (run[-1] + 1) * half_ns
        possible = any(queued >= mirror["fill"] and a <= end and b >= start for a, b, queued in stretches)
        if total >= mirror["fill"] and possible:
            found["spans"].append((start + round(mirror["fill"] * 8 * NS / mirror["capacity"]), end))
        inner = sum(halves[half] for half in run[:-1])
        if len(run) > 1 and inner * 8 * NS >= t["full_share"] * mirror["capacity"] * (len(run) - 1) * half_ns:
            found["full"] = max(found["full"], total)
    return found


def id_gaps(frames: list[dict], times: list[int], runs: dict, t: dict) -> dict:
    """Return evidence from IPv4 identifications of flows other than TCP that increase by small steps, flow by flow."""
    flows = defaultdict(list)
    for frame, at in zip(frames, times, strict=True):
        if frame["flow"] is not None and frame["tcp_seq"] is None and frame["ip_id"] is not None:
            full = any(start <= at < end for start, end in runs["spans"])
            flows[frame["flow"]].append((frame["ip_id"], full))
    found = dict.fromkeys(("id_full_frames", "id_other_frames", "id_full_missing", "id_other_missing"), 0)
    for seen in flows.values():
        steps = [(b[0] - a[0] + 2**15) % 2**16 - 2**15 for a, b in itertools.pairwise(seen)]
        regular = sum(1 <= step <= t["id_step"] for step in steps)
        if len(steps) < t["id_steps"] or regular < t["id_regular_share"] * len(steps):
            continue
        missing, here, highest = {True: 0, False: 0}, 0, 0
        for (_, before), (_, after), step in zip(seen, seen[1:], steps, strict=False):
            if abs(step) > t["id_gap"]:
                here = highest = 0
                continue
            here += step
            ahead = here - highest
            missing[before or after] += ahead - 1 if ahead > 0 else -1 if ahead < 0 else 0
            highest = max(highest, here)
        full, other = max(0, missing[True]), max(0, missing[False])
        number = sum(now or (n > 0 and seen[n - 1][1]) for n, (_, now) in enumerate(seen))
        found["id_full_frames"] += number
        found["id_other_frames"] += len(seen) - number
        found["id_full_missing"] += full
        found["id_other_missing"] += other
    return found


def tcp_bytes(frames: list[dict], flows: list[dict], mirror: dict) -> list[tuple[int, int]]:
    """Return the payload bytes of each TCP flow that were seen at least once, and those in between that were not."""
    speed = max(10 * mirror["capacity"], 2 * (mirror["rate"] or 0), 10**9) / 8 / NS
    found = []
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
            found.append((seen, max(0, spans - bool(flow["fin"]) - seen)))
    return found


def covered(ranges: list[tuple[int, int]]) -> int:
    """Return the number of sequence numbers that are in at least one range, modulo 2^32."""
    pieces = []
    for start, length in ranges:
        pieces += [(start, min(WRAP, start + length))] + ([(0, start + length - WRAP)] if start + length > WRAP else [])
    total, end = 0, 0
    for start, stop in sorted(pieces):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def balance(frames: list[dict], mirror: dict) -> dict:
    """Compare the counters with the captured frames, interval by interval."""
    start, end, rows = mirror["start"], mirror["end"], []
    sizes = [(min(max(f["ts_ns"], start), end - 1), (f["wire_len"] + mirror["counter"]) * mirror["ratio"])
             for f in frames if f["ts_ns"] is not None and start is not None]  # fmt: skip
    captured = sum(frame_bytes for _, frame_bytes in sizes)
    stamps = [f["ts_ns"] for f in frames if f["ts_ns"] is not None] or [start, end]
    first, last = max(start, min(stamps)), min(end, max(stamps))
    readings = sorted(mirror["readings"])
    for (a, before), (b, after) in itertools.pairwise(readings):
        if b > start and a < end:
            inside = a >= first and b <= last
            got = sum(frame_bytes for at, frame_bytes in sizes if a <= at < b)
            rows.append((inside, max(0, min(b, last) - max(a, first)) / (b - a), after - before, got, b - a))
    within = [row for row in rows if row[0]]
    counted, got = sum(row[2] for row in within), sum(row[3] for row in within)
    low = high = counted
    for inside, share, ticks, own, _ in rows:
        if not inside:
            scaled_low = own * counted / got if within and got else own
            scaled_high = own * counted / got if got else ticks
            low += max(own, min(ticks, share * ticks, scaled_low))
            high += max(own, min(ticks, max(share * ticks, scaled_high))) if within else max(own, ticks)
    complete = bool(readings) and readings[0][0] <= start and readings[-1][0] >= end
    return {
        "captured_octets": captured,
        "offered_low_octets": max(captured, low),
        "offered_high_octets": max(captured, high) if complete else None,
        "peak_bps": max((row[2] * 8 * NS / row[4] for row in rows), default=None),
    }
