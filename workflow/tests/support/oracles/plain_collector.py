"""Plain reference of the collector: dictionaries, unbounded integers, one report at a time.

It reads the frames of report_frames byte by byte, follows the definitions of the schemas, and shares no code with the
core.
"""

import ipaddress
import struct
from collections import Counter
from dataclasses import dataclass, field

from acapella_testing.frames.report_frames import BYTES, LAYOUTS, TRIGGER, VALID, icrc
from acapella_testing.oracles.plain_spread import divide, last_packet, rate_bps

SPACE = 1 << 24


def fields_of(number: int, data: bytes) -> dict:
    """Return a report's fields by name; wide ones as bytes."""
    found = {}
    for row in LAYOUTS[number]:
        raw = data[row["offset"] : row["offset"] + row["bytes"]]
        found[row["name"]] = raw if row["bytes"] > 8 else int.from_bytes(raw, "big")
    return found


@dataclass
class Pair:
    """A queue pair: its ring, and every received packet sequence number, unwrapped."""

    number: int
    key: int
    base: int
    slots: int
    psn: int | None = None
    ring: dict = field(default_factory=dict)
    seen: set = field(default_factory=set)
    next: int | None = None
    first: int | None = None
    lost: int = 0

    def verdict(self, psn: int) -> str:
        """Return the outcome of a packet sequence number; count missing ones before it."""
        if self.next is None:
            self.next = self.first = SPACE + (psn if self.psn is None else self.psn)
        ahead = (psn - self.next) % SPACE
        if ahead < SPACE // 2:
            self.lost += ahead
            self.next += ahead + 1
            self.seen.add(self.next - 1)
            return "accepted"
        place = self.next - (self.next - psn) % SPACE
        if place < self.first or place in self.seen:
            return "psn_duplicate"
        self.seen.add(place)
        return "psn_reordered"


class Plain:
    """A collector. counters: by reason; flows: by key, in order of their first reports; series: rows."""

    def __init__(self, pairs: list[Pair], number: int = 2, series_ns: int | None = None):
        self.pairs = {pair.number: pair for pair in pairs}
        self.number = number
        self.series_ns = series_ns
        self.counters: Counter[str] = Counter()
        self.flows: dict[tuple, Flow] = {}
        self.series: list[dict] = []

    def frame(self, data: bytes, wire: int | None = None) -> None:
        """Process a frame of `wire` bytes, captured as `data`."""
        verdict, payload = self.judge(data, len(data) if wire is None else wire)
        self.counters[verdict] += 1
        if verdict == "accepted":
            self.report(payload)

    def judge(self, data: bytes, wire: int) -> tuple[str, bytes]:  # noqa: PLR0911  (one for each verdict)
        """Return the outcome of a frame, and its payload."""
        cut = len(data) < wire
        at = 12
        while data[at : at + 2] in (b"\x81\0", b"\x88\xa8", b"\x91\0"):
            at += 4
        if len(data) < at + 2:
            return ("truncated" if cut else "not_roce"), b""
        if data[at : at + 2] != b"\x08\0":
            return "not_roce", b""
        at += 2
        packet = data[at:]
        if len(packet) < 28:
            return ("truncated" if cut else "not_roce"), b""
        total, fragment = struct.unpack_from("!H", packet, 2)[0], struct.unpack_from("!H", packet, 6)[0]
        port, udp_length = struct.unpack_from("!HH", packet, 22)
        if packet[0] != 0x45 or packet[9] != 17 or fragment & 0x3FFF or port != 4791:
            return "not_roce", b""
        if total > wire - at or total < 44:
            return "bad_length", b""
        if len(packet) < total:
            return "truncated", b""
        packet = packet[:total]
        if udp_length != total - 20:
            return "bad_length", b""
        if icrc(packet[:-4]) != packet[-4:]:
            return "bad_icrc", b""
        return self.transport(packet[28:-4])

    def transport(self, data: bytes) -> tuple[str, bytes]:  # noqa: PLR0911
        """Return the outcome of a packet, given from its BTH to its payload, and the payload."""
        if data[0] != 0x2A or data[1] & 15:
            return "bad_opcode", b""
        if len(data) < 28:
            return "bad_length", b""
        padding = data[1] >> 4 & 3
        number, psn = int.from_bytes(data[5:8], "big"), int.from_bytes(data[9:12], "big")
        address, key, length = struct.unpack_from("!QII", data, 12)
        payload = data[28 : 28 + length]
        if len(data) != 28 + length + padding:
            return "bad_length", b""
        if number not in self.pairs:
            return "bad_qp", b""
        pair, size = self.pairs[number], BYTES[self.number]
        if key != pair.key:
            return "bad_key", b""
        if length != size:
            return "bad_length", b""
        slot, remainder = divmod(address - pair.base, size)
        if remainder or not 0 <= slot < pair.slots:
            return "out_of_bounds", b""
        if not self.known(payload):
            return "bad_version", b""
        verdict = pair.verdict(psn)
        if verdict == "accepted":
            pair.ring[slot] = payload
        return verdict, payload

    def known(self, payload: bytes) -> bool:
        """Return whether a payload is a report of the collector's format."""
        if self.number == 1:
            return payload[56:58] == b"\0\0"
        return payload[0] == 2 and payload[1] in (4, 6)

    def report(self, payload: bytes) -> None:
        """Process a report from the ring."""
        fields = fields_of(self.number, payload)
        key = published_key(fields) if self.number == 1 else tagged_key(fields)
        if key not in self.flows:
            self.flows[key] = (Published if self.number == 1 else Tagged)(len(self.flows))
        self.counters[self.flows[key].take(fields, self)] += 1

    def finish(self) -> None:
        """End the open windows of all flows."""
        for flow in self.flows.values():
            if flow.window and flow.window["reports"]:
                flow.end_window(self)


def published_key(fields: dict) -> tuple:
    """Return (version, proto, vlans, labels, src, dst, src_port, dst_port)."""
    ends = (fields["src"].to_bytes(4, "big"), fields["dst"].to_bytes(4, "big"))
    return (4, 6, (), (), *map(address, ends), fields["src_port"], fields["dst_port"])


def tagged_key(fields: dict) -> tuple:
    """Return the same for format 2, with the VLAN IDs and labels that a report contains (at most four of each)."""
    width = 4 if fields["ip_version"] == 4 else 16
    vlans = tuple(fields[f"vlan_{i}"] for i in range(min(4, fields["vlan_count"])))
    labels = tuple(fields[f"mpls_{i}"] for i in range(min(4, fields["mpls_count"])))
    ends = (address(fields["src"][-width:]), address(fields["dst"][-width:]))
    ports = (fields["src_port"], fields["dst_port"])
    return (fields["ip_version"], fields["ip_proto"], vlans, labels, *ends, *ports)


def address(raw: bytes) -> str:
    """Return an address as text (RFC 5952)."""
    return str(ipaddress.ip_address(raw))


class Flow:
    """State of a flow common to both formats."""

    has_ack = False

    def __init__(self, number: int):
        self.number = number
        self.reports = self.older = 0
        self.newest = self.first = self.start = self.end = None
        self.fin = False  # a FIN or RST was received
        self.last_known = False  # the newest report contains the time of the last packet
        self.rtt_syn = self.rtt_ack = self.iat = self.seq = self.ack = self.base = None
        self.acked = 0
        self.partial = False  # acknowledgments before a report are unknown
        self.slot = None
        self.unfollowed = False  # TCP only: a report had no slot, or had a different slot without a SYN
        self.uncertain = self.uncertain_slot = None  # sum over all slots, and the value of the newest report
        self.slots = dict.fromkeys(("payload_bytes", "retransmitted_bytes", "gap_bytes", "duplicate_acks"), 0)
        self.tags_cut = False
        self.window = None

    def flight(self) -> int | None:
        """Return the bytes in flight."""
        if self.seq is None or not self.has_ack:
            return None
        flight = (self.seq - self.ack) % 2**32
        return flight if flight < 2**31 else None

    def acknowledge(self, ack: int, first: int) -> None:
        """Process an acknowledgment number, modulo 2^32; `first` is used as start if none is known."""
        if self.base is None:
            self.base = self.ack = first
        known = self.base if self.ack is None else self.ack
        step = (ack - known) % 2**32
        self.ack = known
        if 0 < step < 2**31:
            self.acked += step
            self.ack = ack

    def totals(self) -> dict:
        """Return the counters whose increases are in a window."""
        size = self.size()
        return {"bytes": size[0], "packets": size[1], "acknowledged_bytes": self.acked, **self.slots}

    def before(self, time: int, plain: Plain) -> None:
        """Prepare the window for a newer report."""
        width = plain.series_ns
        if width is None:
            return
        if self.window is None:
            zero = dict.fromkeys(("bytes", "packets", "acknowledged_bytes", *self.slots), 0)
            self.window = {"totals": zero, "start": time // width if width else time, "last": 0}
            self.open_window()
            self.window["closed"] = {} if width else None
        elif width == 0:
            self.window["start"] = self.window["last"]
        elif time // width > self.window["start"]:
            self.end_window(plain)
            self.window |= {"start": time // width, "closed": plain.series[-1]}
        else:
            self.window["closed"] = None

    def open_window(self) -> None:
        """Begin an empty window."""
        self.window |= {"reports": 0, "flight": None, "max_flight": None}

    def after(self, time: int, plain: Plain) -> None:
        """Update the window after a newer report."""
        if plain.series_ns is None:
            return
        window = self.window
        window["reports"] += 1
        window["last"] = max(window["last"], time)
        if self.flight() is not None:
            window["flight"] = self.flight()
            window["max_flight"] = max(window["flight"], window["max_flight"] or 0)
        if plain.series_ns == 0:
            self.end_window(plain)

    def end_window(self, plain: Plain) -> None:
        """Add a row to the series."""
        window, width, totals = self.window, plain.series_ns, self.totals()
        step = {name: totals[name] - window["totals"][name] for name in totals}
        step["duplicate_acks"] %= 2**32
        last = window["last"] if width else self.newest[1]
        span = width or max(0, last - window["start"])
        for name in self.slots:
            step[name] = None if self.slot is None else step[name]
        if not self.has_ack or self.partial:
            step["acknowledged_bytes"] = None
        row = {"flow": self.number, "windows": 1, "last_ns": last, "reports": window["reports"], "iat_ns": self.iat}
        row |= {"window_ns": window["start"] * width if width else last}
        row |= {"packet_size_mean": step["bytes"] / step["packets"] if step["packets"] else None}
        row |= {"throughput_bps": rate_bps(step["bytes"], span)}
        plain.series.append(
            row | {"bytes_in_flight": window["flight"], "bytes_in_flight_max": window["max_flight"], **step}
        )
        window["totals"] = totals
        self.open_window()

    def row(self) -> dict:
        """Return the columns of flow_reports, except those that are quotients of other columns."""
        size = self.size()
        end = self.end if self.fin or self.last_known else None
        has_times = self.start is not None and end is not None
        return {
            **{"flow": self.number, "start_ns": self.start, "end_ns": end, "ended": self.fin},
            "duration_ns": end - self.start if has_times else None,
            **{"first_ns": self.first, "last_ns": self.newest[1], "bytes": size[0], "packets": size[1]},
            **{"rtt_syn_ns": self.rtt_syn, "rtt_ack_ns": self.rtt_ack, "iat_ns": self.iat},
            "bytes_in_flight": self.flight(),
            "acknowledged_bytes": self.acked if self.has_ack and not self.partial else None,
            **{name: None if self.slot is None else value for name, value in self.slots.items()},
            "uncertain_bytes": None if self.unfollowed else self.uncertain,
            "partly_followed": None if self.slot is None else self.unfollowed,
            **{"reports": self.reports, "older_reports": self.older, "epochs": self.epoch_count()},
            "tags_cut": self.tags_cut,
        }


class Published(Flow):
    """Format 1."""

    def __init__(self, number: int):
        super().__init__(number)
        self.closed, self.current, self.begun = [0, 0], [0, 0], 1

    def size(self) -> tuple[int, int]:
        """Return bytes and packets."""
        return self.closed[0] + self.current[0], self.closed[1] + self.current[1]

    def epoch_count(self) -> int:
        """Return the number of times that counting started."""
        return self.begun

    def take(self, fields: dict, plain: Plain) -> str:
        """Process a report; return its outcome."""
        self.reports += 1
        stamp = fields["timestamp"]
        if self.newest is None:
            self.first = time = stamp
        else:
            step = (stamp - self.newest[1]) % 2**48
            if step >= 2**47:
                self.older += 1
                return "older"
            time = self.newest[1] + step
        self.before(time, plain)
        self.measure([min(fields[f"bytes_{i}"] for i in range(4)), min(fields[f"packets_{i}"] for i in range(4))])
        self.newest = (0, time)
        kind = fields["packet_type"]
        if kind in (0, 3):
            self.start = time if self.start is None else min(self.start, time)
        if kind == 4:
            self.fin, self.end = True, time if self.end is None else max(self.end, time)
        if kind == 2:
            self.seq, self.has_ack = fields["seq"], True
            self.acknowledge(fields["ack"], fields["ack"])
        self.rtt_syn = fields["rtt"] * 1024 or self.rtt_syn
        self.iat = fields["iat"] or None
        self.after(time, plain)
        return "taken"

    def measure(self, counts: list[int]) -> None:
        """Handle resets and wraps of the cells."""
        if self.newest is None:
            self.current = counts
            return
        moduli = (2**32, 2**16)
        cells = list(zip(counts, self.current, moduli, strict=True))
        decreased = [count < known % modulus for count, known, modulus in cells]
        increases = [(count - known) % modulus for count, known, modulus in cells]
        added_bytes, added_packets = increases
        plausible = added_packets * 20 <= added_bytes <= added_packets * 65535
        plausible = plausible and added_bytes < 2**31 and added_packets < 2**15
        if any(decreased) and (all(decreased) or not plausible):
            self.closed = [x + y for x, y in zip(self.closed, self.current, strict=True)]
            self.current = counts
            self.begun += 1
        else:
            self.current = [x + y for x, y in zip(self.current, increases, strict=True)]


class Tagged(Flow):
    """Format 2: maximum counts per epoch. Those of the last two epochs may still change."""

    def __init__(self, number: int):
        super().__init__(number)
        self.epochs: dict[int, list[int]] = {}

    def size(self) -> tuple[int, int]:
        """Return bytes and packets."""
        return sum(x for x, _ in self.epochs.values()), sum(y for _, y in self.epochs.values())

    def epoch_count(self) -> int:
        """Return the number of epochs with a report."""
        return len(self.epochs)

    def measure(self, fields: dict) -> bool:
        """Add the counts of a report; return False if its epoch is closed."""
        epoch = fields["epoch"]
        if len(self.epochs) > 1 and epoch < sorted(self.epochs)[-2]:
            return False
        known = self.epochs.get(epoch, [0, 0])
        self.epochs[epoch] = [max(known[0], fields["bytes"]), max(known[1], fields["packets"])]
        return True

    def ends(self, fields: dict) -> None:
        """Update start, end and tags."""
        if fields["valid"] & VALID["start"]:
            self.start = min(fields["start"], fields["start"] if self.start is None else self.start)
        if fields["trigger"] & (TRIGGER["fin"] | TRIGGER["rst"]):
            self.fin, self.end = True, max(fields["timestamp"], self.end or 0)
        if last_packet(fields) is not None:
            self.end = max(last_packet(fields), self.end or 0)
        self.tags_cut |= not fields["valid"] & VALID["tags"]

    def take(self, fields: dict, plain: Plain) -> str:
        """Process a report; return its outcome."""
        self.reports += 1
        stamp = (fields["epoch"], fields["timestamp"], fields["report_sequence"])
        if self.newest is not None:
            later = 0 < (stamp[2] - self.newest[2]) % 2**32 < 2**31
            if stamp == self.newest:
                return "repeated"
            if stamp[:2] < self.newest[:2] or (stamp[:2] == self.newest[:2] and not later):
                self.older += 1
                self.first = min(self.first, stamp[1])
                if not self.measure(fields):
                    return "late_epoch"
                self.ends(fields)
                self.unfollowed |= fields["ip_proto"] == 6 and not fields["valid"] & VALID["slot"]
                return "older"
        else:
            self.first = stamp[1]
        self.before(stamp[1], plain)
        self.measure(fields)
        self.newest = stamp
        self.ends(fields)
        self.newest_values(fields)
        if plain.series_ns and self.window["closed"] is not None:
            divide(self, fields, plain.series, plain.series_ns)
        self.after(stamp[1], plain)
        return "taken"

    def newest_values(self, fields: dict) -> None:
        """Update values that only the newest report determines."""
        has = {name for name, bit in VALID.items() if fields["valid"] & bit}
        self.last_known = last_packet(fields) is not None
        for name in ("rtt_syn", "rtt_ack"):
            if name in has:
                setattr(self, name, fields[name])
        self.iat = fields["iat"] if "iat" in has else None
        syn = bool(fields["trigger"] & TRIGGER["syn"])
        if fields["ip_proto"] == 6 and "slot" not in has:
            self.lose_slot(syn=syn)
            self.seq, self.has_ack = None, False
        elif fields["ip_proto"] == 6 and self.slot is not None and fields["start"] != self.slot["start"] and not syn:
            self.lose_slot(syn=False)
        if "seq" in has:
            self.seq = fields["seq_end"]
        if "ack" in has:
            self.has_ack = True
            self.acknowledge(fields["ack"], fields["first_ack"])
        elif "seq" in has and fields["trigger"] & TRIGGER["syn"]:
            self.base, self.ack = None, fields["seq_end"]
        if "slot" in has and fields["ip_proto"] == 6:
            self.take_slot(fields)

    def lose_slot(self, *, syn: bool) -> None:
        """Handle a report of a TCP flow that has no slot, or a different slot than the previous report."""
        self.unfollowed = True
        if self.base is None or syn:
            self.base, self.partial = None, True

    def take_slot(self, fields: dict) -> None:
        """Update counters that restart with a new slot."""
        names = ("payload_bytes", "retransmitted_bytes", "gap_bytes")
        last = self.slot
        if fields["valid"] & VALID["uncertain"]:
            same = self.uncertain is not None and last is not None and fields["start"] == last["start"]
            more = fields["uncertain_bytes"] - (self.uncertain_slot if same else 0)
            self.uncertain, self.uncertain_slot = (self.uncertain or 0) + more, fields["uncertain_bytes"]
        if last is None or fields["start"] != last["start"]:
            last = dict.fromkeys((*names, "duplicate_acks", "start"), 0)
        for name in names:
            self.slots[name] += fields[name] - last[name]
        more = fields["duplicate_acks"] - last["duplicate_acks"]
        self.slots["duplicate_acks"] = (self.slots["duplicate_acks"] + more) % 2**32
        self.slot = {name: fields[name] for name in last}
