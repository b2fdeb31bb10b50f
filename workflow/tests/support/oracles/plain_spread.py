"""The part of plain_collector.py that assigns the packets of a report to windows, by the times of the packets."""

from fractions import Fraction
from math import floor

from acapella_testing.frames.report_frames import TRIGGER, VALID

SPREAD = ("bytes", "packets", "payload_bytes")  # columns that a series assigns by the times of packets


def last_packet(fields: dict) -> int | None:
    """Return the time of the last packet that a report of format 2 counts."""
    if fields["valid"] & VALID["last"]:
        return min(fields["last"], fields["timestamp"])
    own = fields["trigger"] & sum(TRIGGER[name] for name in ("syn", "fin", "rst", "nth", "time", "first"))
    return fields["timestamp"] if own else None


def iat_of(fields: dict) -> int | None:
    """Return the time between the last packet and the previous one."""
    return fields["iat"] if fields["valid"] & VALID["iat"] else None


def rates(row: dict, width: int) -> None:
    """Set the columns of a row that are derived from its bytes."""
    span = width * row["windows"]
    row["packet_size_mean"] = row["bytes"] / row["packets"] if row["packets"] else None
    row["throughput_bps"] = rate_bps(row["bytes"], span)


def rate_bps(size: int, span: int) -> int | None:
    """Return bits per second, rounded half up, limited to 64 bits."""
    return min((size * 8 * 10**9 + span // 2) // span, 2**64 - 1) if span else None


class Times:
    """Times of `packets` packets: one at `end` if it is known, one `iat` before it if known, others evenly spread."""

    def __init__(self, since: int, end: int, known: bool, iat: int | None, packets: int):
        self.since, self.even_end, self.packets = since, end, packets
        self.points = [end] if known and packets else []
        if self.points and packets > 1 and iat is not None:
            if end - iat < since:
                self.since = end
                self.points = []
            else:
                self.even_end = end - iat
                self.points.append(self.even_end)
        self.end = end

    def windows(self, width: int, stop: int) -> range:
        """Return the numbers of the windows with a share, before `stop`."""
        return range(self.since // width, min(stop, self.end // width + 1))

    def until(self, time: int, amount: int) -> int:
        """Return the part of an amount before `time`."""
        each = amount // self.packets if self.points else 0
        rest = amount - each * len(self.points)
        passed, length = min(time, self.even_end) - self.since, self.even_end - self.since
        share = Fraction(1) if time > self.even_end else Fraction(max(0, passed), length)
        return floor(rest * share) + each * sum(point < time for point in self.points)

    def rows(self, shares: dict, width: int) -> list[dict]:
        """Return windows with their shares. Windows within the evenly distributed time are one row."""
        rows = []
        for number, share in sorted(shares.items()):
            even = self.since // width < number < self.even_end // width
            if even and rows and rows[-1]["even"]:
                rows[-1]["windows"] += 1
                for name in SPREAD:
                    rows[-1][name] += share[name]
            else:
                rows.append({"window_ns": number * width, "windows": 1, "even": even, **share})
        return rows


def divide(flow, fields: dict, series: list[dict], width: int) -> None:
    """Distribute the counts that a report added over the windows before the one that it opened."""
    window, totals = flow.window, flow.totals()
    last = last_packet(fields)
    until = fields["timestamp"] if last is None else last
    if window["closed"]:
        since = window["last"]
    else:
        since = min(until, fields["start"]) if fields["valid"] & VALID["start"] else until
    times = Times(
        since, max(since, until), last is not None, iat_of(fields), totals["packets"] - window["totals"]["packets"]
    )
    assigned, shares = {}, {}
    for name in SPREAD:
        added = totals[name] - window["totals"][name]
        for number in times.windows(width, window["start"]):
            so_far = times.until(min(number + 1, window["start"]) * width, added)
            shares.setdefault(number, {})[name] = so_far - assigned.get(name, 0)
            assigned[name] = so_far
    if window["closed"] and flow.slot is not None:  # even without a share, because the slot is known by then
        window["closed"] |= {name: window["closed"][name] or 0 for name in flow.slots}
    for row in times.rows(shares, width):
        if window["closed"] and row["window_ns"] == window["closed"]["window_ns"]:
            enlarge(window["closed"], row, width)
        elif any(row[name] for name in SPREAD):
            series.append(without_reports(flow, row, fields["timestamp"], width))
    for name in SPREAD:
        window["totals"][name] += assigned.get(name, 0)


def enlarge(closed: dict, row: dict, width: int) -> None:
    """Add a share to the row of the previous window."""
    for name in SPREAD:
        closed[name] = None if closed[name] is None else closed[name] + row[name]
    rates(closed, width)


def without_reports(flow, row: dict, time: int, width: int) -> dict:
    """Return a row of windows without reports."""
    nothing = {name: None if flow.slot is None else 0 for name in flow.slots}
    created = {
        **{"flow": flow.number, "last_ns": time, "reports": 0},
        **dict.fromkeys(("bytes_in_flight", "bytes_in_flight_max", "iat_ns")),
        "acknowledged_bytes": 0 if flow.has_ack and not flow.partial else None,
        **nothing,
        **{name: row[name] for name in ("window_ns", "windows", "bytes", "packets")},
    }
    if flow.slot is not None:
        created["payload_bytes"] = row["payload_bytes"]
    rates(created, width)
    return created
