"""Model of flowstats.p4, written from its specification and not from its source.

It has flow keys, a count-min sketch in two banks, slots of per-flow state, triggers and reports. `Flowstats.frame`
takes a frame from the loader and returns the program's output. Registers have the same names as in control files and in
the loader's dump.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from acapella_p4_model import reports
from acapella_p4_model.flow_key import Key
from acapella_p4_model.flow_state import (
    ACK,
    FIN,
    M32,
    M64,
    RST,
    S_ACK,
    S_DATA,
    S_ENDED,
    S_IAT,
    S_PENDING,
    S_RTT_ACK,
    S_RTT_SYN,
    S_SEQ,
    SYN,
    ZEROED,
    Packet,
    Slots,
    Sparse,
    signed,
)
from acapella_p4_model.parsing import MAX_STACKED, TCP, Parsed

M16 = 0xFFFF

# Triggers: bits of the register `triggers` and of a report's field `trigger`.
(T_SYN, T_ACK, T_FIN, T_RST, T_NTH, T_TIME, T_FIRST, T_PROBE, T_DATA_ACK) = (1 << bit for bit in range(9))

# Reasons for which no report is sent.
NO_TRIGGER, NO_FLOW, REVERSE_UNKNOWN, NO_QUEUE_PAIR, NOT_IN_FORMAT = 32, 33, 34, 35, 36

ROWS = 4
QUEUE_PAIRS = 16

# Registers of one entry, with their initial values.
SETTINGS = {
    "rows": ROWS,
    "cell_mask": M16,
    "slot_mask": (1 << 18) - 1,
    "slot_timeout_ns": 10_000_000_000,
    "triggers": T_SYN | T_ACK | T_FIN | T_RST | T_TIME | T_FIRST | T_PROBE | T_DATA_ACK,
    "every": 0,
    "interval_ns": 1_000_000_000,
    "format": 2,
    "active_bank": 0,
    "epoch": 0,
    "qp_mask": 0,
    "report_sequence": 0,
    "report_dst_mac": 0,
    "report_src_mac": 0,
    "report_dst_ip": 0,
    "report_src_ip": 0,
}
QUEUE_PAIR_REGISTERS = ("qp_number", "qp_psn", "qp_address", "qp_base", "qp_end", "qp_key")


@dataclass
class Result:
    """The output for a frame: a report, or a reason."""

    reason: int
    report: bytes | None = None  # Ethernet to the end of the payload, without ICRC
    trigger: int = 0
    sequence: int = 0  # sequence number of the ingress port
    hash: int = 0


@dataclass
class Subject:
    """The flow that a report describes."""

    key: Key
    slot: int
    held: bool
    cells: list[tuple[int, int]]
    tags_whole: bool


@dataclass
class Flowstats:
    """The program's registers and its steps."""

    settings: dict[str, int] = field(default_factory=lambda: dict(SETTINGS))
    arrays: dict[str, Sparse] = field(init=False)

    def __post_init__(self) -> None:
        sketch = [f"sketch_{what}_{row}" for what in ("bytes", "packets") for row in range(ROWS)]
        names = (*QUEUE_PAIR_REGISTERS, *sketch, "slot_counters", "slotless", "port_sequence")
        self.slots = Slots()
        self.arrays = {name: Sparse() for name in names} | self.slots.registers

    def frame(self, parsed: Parsed, *, timestamp_ns: int, port: int, probe: bool = False) -> Result:
        """Process one frame; `parsed` is the result of the parser's model."""
        sequence = self.arrays["port_sequence"][port & 0xFF]
        if not probe:
            self.arrays["port_sequence"][port & 0xFF] = sequence + 1 & M32
        if parsed.flow.ip_version == 0:
            return Result(NO_FLOW, sequence=sequence)
        packet = self._packet(parsed, timestamp_ns, port, probe)
        self._find_slot(packet)
        self._count(packet)
        if not probe:
            if packet.held:
                self.slots.follow_times(packet)
            if packet.tcp:
                self.slots.follow_tcp(packet)
        result = self._report(packet)
        result.sequence, result.hash = sequence, packet.key.digest()[1]
        return result

    @staticmethod
    def _packet(parsed: Parsed, now: int, port: int, probe: bool) -> Packet:
        tcp = None
        if parsed.transport == TCP:
            header = parsed.tcp
            tcp = SimpleNamespace(flags=header.flags, seq=header.seq, ack=header.ack, window=header.window)
        payload = parsed.payload_length if parsed.transport else 0
        tags_whole = parsed.flow.vlan_count <= MAX_STACKED
        return Packet(Key.of(parsed), now, parsed.ip_length, payload, port, probe, tcp, tags_whole)

    # Slots

    def _candidates(self, key: Key) -> list[int]:
        """Return the candidate slots of a flow: two adjacent ones for each hash."""
        crc, jhash = key.digest()
        return [(number ^ flip) & self.settings["slot_mask"] for flip in (0, 1) for number in (jhash, crc)]

    def _slot_with(self, key: Key) -> int | None:
        """Return the slot with the key's digest, for any labels."""
        crc, jhash = key.digest()
        owners = self.slots.registers["slot_fingerprint"]
        return next((slot for slot in self._candidates(key) if owners[slot] == crc << 32 | jhash), None)

    def _find_slot(self, packet: Packet) -> None:
        key, slot = packet.key, self._slot_with(packet.key)
        if slot is not None:
            packet.slot = slot
            packet.held = (self.slots.get("labels", slot), self.slots.get("label_4", slot)) == (
                key.packed_labels,
                key.labels[3],
            )
        if not packet.probe and not packet.held:
            self._take_slot(packet, slot)
        peer = self._slot_with(key.reversed()) if packet.tcp else None
        packet.peer_held = peer is not None
        packet.peer = peer or 0

    def _take_slot(self, packet: Packet, same: int | None) -> None:
        """Allocate a free slot, else evict one. If slot `same` has the flow's digest, no other slot is considered."""
        counters, candidates = self.arrays["slot_counters"], self._candidates(packet.key) if same is None else [same]
        free = next((slot for slot in candidates if self.slots.get("fingerprint", slot) == 0), None)
        evictable = (slot for slot in candidates if self._evictable(slot, packet.now))
        slot = next(evictable, None) if free is None else free
        if slot is None:
            counters[2] += 1
            return
        counters[0 if free is not None else 3 if self.slots.get("state", slot) & S_ENDED else 1] += 1
        crc, jhash = packet.key.digest()
        packet.slot, packet.held, packet.new = slot, True, True
        self.slots.set("fingerprint", slot, crc << 32 | jhash)
        self.slots.set("labels", slot, packet.key.packed_labels)
        self.slots.set("label_4", slot, packet.key.labels[3])
        self.slots.set("start", slot, packet.now)
        self.slots.set("last", slot, packet.now)
        self.slots.set("reported", slot, packet.now)
        self.slots.set("epoch", slot, 0)
        for name in ZEROED:
            self.arrays[name][slot] = 0

    def _evictable(self, slot: int, now: int) -> bool:
        """Return whether a slot can be evicted.

        Its flow must have ended or been idle. It also must have been reported completely, or have no packets in this
        epoch, so that it needs no probe.
        """
        state = self.slots.get("state", slot)
        idle = signed(now - self.slots.get("last", slot), 64) >= self.settings["slot_timeout_ns"]
        reported = self.slots.get("unreported", slot) == 0 and not state & S_PENDING
        return (bool(state & S_ENDED) or idle) and (reported or self.slots.get("epoch", slot) != self._epoch_mark())

    def _epoch_mark(self) -> int:
        """Return the value of slot_epoch for a flow with packets in this epoch; 0 means none."""
        return self.settings["epoch"] + 1 & M32

    def _epoch(self, packet: Packet) -> int:
        """Return the epoch of a report: for a probe, the one that has ended."""
        return self.settings["epoch"] - packet.probe & M32

    # The sketch

    def cells(self, key: Key, *, ended: bool = False, add: tuple[int, int] = (0, 0)) -> list[tuple[int, int]]:
        """Add `add` to a flow's cells; return bytes and packets of each row in use."""
        mask, bank = self.settings["cell_mask"], self.settings["active_bank"] ^ ended
        cells = []
        for row in range(min(self.settings["rows"], ROWS)):
            cell = (key.row_hash(row) & mask) + (mask + 1 if bank else 0)
            for quantity, amount in zip(("bytes", "packets"), add, strict=True):
                register = self.arrays[f"sketch_{quantity}_{row}"]
                if amount:
                    register[cell] = register[cell] + amount & M64
            cells.append((self.arrays[f"sketch_bytes_{row}"][cell], self.arrays[f"sketch_packets_{row}"][cell]))
        return cells

    def _count(self, packet: Packet) -> None:
        if packet.probe:
            packet.cells = self.cells(packet.key, ended=True)
            return
        packet.cells = self.cells(packet.key, add=(packet.ip_length, 1))
        if packet.held:
            packet.first = self.slots.get("epoch", packet.slot) != self._epoch_mark()
            self.slots.set("epoch", packet.slot, self._epoch_mark())
        else:
            packet.first = self._begins_without_slot(packet)

    def _slotless(self, key: Key) -> tuple[list[int], int]:
        """Return the entries where a flow without a slot is recorded in this epoch, and the record."""
        rows = min(self.settings["rows"], ROWS)
        entries = [half & self.settings["slot_mask"] for half in key.digest()]
        return entries, self._epoch_mark() << 32 | key.row_hash(rows - 1)

    def _begins_without_slot(self, packet: Packet) -> bool:
        """Return whether this is the first packet of the flow in this epoch.

        The flow is recorded if one of its entries is free; otherwise the packet is the first if it is the only one in
        a cell.
        """
        entries, record = self._slotless(packet.key)
        records = self.arrays["slotless"]
        if record in [records[entry] for entry in entries]:
            return False
        free = next((entry for entry in entries if records[entry] >> 32 != self._epoch_mark()), None)
        if free is not None:
            records[free] = record
            return True
        begins = any(packets == 1 for _, packets in packet.cells)
        self.arrays["slot_counters"][4] += not begins
        return begins

    # Triggers and reports

    def _own_triggers(self, packet: Packet) -> int:
        if packet.probe:
            return T_PROBE
        bits = {T_SYN: packet.has(SYN), T_FIN: packet.has(FIN), T_RST: packet.has(RST), T_FIRST: packet.first}
        if packet.held:
            every, interval = self.settings["every"], self.settings["interval_ns"]
            since = signed(packet.now - self.slots.get("reported", packet.slot), 64)
            bits[T_NTH] = every > 0 and self.slots.get("unreported", packet.slot) >= every
            bits[T_TIME] = interval > 0 and since >= interval
        return sum(bit for bit, on in bits.items() if on)

    @staticmethod
    def _peer_triggers(packet: Packet) -> int:
        if packet.probe or not packet.has(ACK) or packet.has(SYN | FIN | RST):
            return 0
        if packet.payload:
            return T_DATA_ACK if packet.advances else 0
        return T_ACK

    def _report(self, packet: Packet) -> Result:
        trigger = self._own_triggers(packet) & self.settings["triggers"]
        if trigger:
            subject = Subject(packet.key, packet.slot, packet.held, packet.cells, packet.tags_whole)
        else:
            trigger = self._peer_triggers(packet) & self.settings["triggers"]
            if not trigger:
                return Result(NO_TRIGGER)
            subject = self._peer_subject(packet)
            entries, record = self._slotless(subject.key)
            seen = subject.held or record in [self.arrays["slotless"][entry] for entry in entries]
            if self.settings["format"] != 1 and not seen:
                return Result(REVERSE_UNKNOWN)
        if self.settings["format"] == 1 and subject.key.ip_version != 4:
            return Result(NOT_IN_FORMAT, trigger=trigger)
        return self._send(packet, subject, trigger)

    def _peer_subject(self, packet: Packet) -> Subject:
        key = packet.key.reversed()
        if packet.peer_held:
            key = key.with_labels(self.slots.get("labels", packet.peer), self.slots.get("label_4", packet.peer))
        return Subject(key, packet.peer, packet.peer_held, self.cells(key), packet.tags_whole)

    def _send(self, packet: Packet, subject: Subject, trigger: int) -> Result:
        pair = subject.key.digest()[0] & self.settings["qp_mask"] & QUEUE_PAIRS - 1
        queue_pair = {name: self.arrays[name][pair] for name in QUEUE_PAIR_REGISTERS}
        if queue_pair["qp_number"] == 0:
            return Result(NO_QUEUE_PAIR, trigger=trigger)
        self.settings["report_sequence"] = self.settings["report_sequence"] + 1 & M32
        paper = self.settings["format"] == 1
        payload = self._paper_payload(packet, subject) if paper else self._payload(packet, subject, trigger)
        self._advance(pair, len(payload))
        if subject.held and not packet.probe:
            self.slots.set("reported", subject.slot, packet.now)
            self.slots.set("unreported", subject.slot, 0)
            self.slots.mark(subject.slot, 0, S_PENDING)
        return Result(0, reports.frame(self.settings, queue_pair, pair, payload), trigger)

    def _advance(self, pair: int, length: int) -> None:
        self.arrays["qp_psn"][pair] = self.arrays["qp_psn"][pair] + 1 & 0xFFFFFF
        following = self.arrays["qp_address"][pair] + length & M64
        if following + length > self.arrays["qp_end"][pair]:
            following = self.arrays["qp_base"][pair]
        self.arrays["qp_address"][pair] = following

    def _slot_values(self, subject: Subject) -> dict[str, int]:
        """Return a slot's values, 0 if they are not valid."""
        bits = {
            "iat": S_IAT,
            "rtt_syn": S_RTT_SYN,
            "rtt_ack": S_RTT_ACK,
            "seq_end": S_SEQ,
            "ack": S_ACK,
            "first_ack": S_ACK,
            "data_seq": S_DATA,
        }
        counts = ("start", "last", "duplicate_acks", "retransmitted", "gap", "uncertain", "payload")
        if not subject.held:
            return dict.fromkeys((*bits, *counts, "state"), 0)
        state = self.slots.get("state", subject.slot)
        values = {name: self.slots.get(name, subject.slot) if state & bit else 0 for name, bit in bits.items()}
        values |= {name: self.slots.get(name, subject.slot) for name in counts}
        return values | {"state": state}

    def _payload(self, packet: Packet, subject: Subject, trigger: int) -> bytes:
        values = self._slot_values(subject)
        state = values.pop("state")
        valid = 1 | 64 | 256 | 512 if subject.held else 0
        for number, bit in enumerate((S_RTT_SYN, S_RTT_ACK, S_IAT, S_SEQ, S_ACK), 1):
            valid |= bool(state & bit) << number
        valid |= subject.tags_whole << 7
        return reports.pack(
            2,
            {
                "version": 2,
                **subject.key.report_fields(),
                "tcp_flags": packet.tcp.flags if packet.tcp else 0,
                "trigger": trigger,
                "valid": valid,
                "ingress_port": packet.port & M16,
                "epoch": self._epoch(packet),
                "report_sequence": self.settings["report_sequence"],
                "timestamp": packet.now,
                "start": values["start"],
                "bytes": min(size for size, _ in subject.cells),
                "packets": min(count for _, count in subject.cells),
                "rtt_syn": values["rtt_syn"],
                "rtt_ack": values["rtt_ack"],
                "iat": values["iat"],
                "first_ack": values["first_ack"],
                "seq_end": values["seq_end"],
                "ack": values["ack"],
                "duplicate_acks": values["duplicate_acks"],
                "retransmitted_bytes": values["retransmitted"],
                "gap_bytes": values["gap"],
                "payload_bytes": values["payload"],
                "last": values["last"],
                "uncertain_bytes": values["uncertain"],
            },
        )

    def _paper_payload(self, packet: Packet, subject: Subject) -> bytes:
        key, values = subject.key, self._slot_values(subject)
        cells = subject.cells + [(0, 0)] * (ROWS - len(subject.cells))
        kind = 1
        if packet.has(SYN):
            kind = 3 if packet.has(ACK) else 0
        elif packet.has(FIN | RST):
            kind = 4
        elif packet.has(ACK) and packet.payload == 0:
            kind = 2
        return reports.pack(
            1,
            {
                "src": key.src & M32,
                "dst": key.dst & M32,
                "src_port": key.src_port,
                "dst_port": key.dst_port,
                "rtt": values["rtt_syn"] >> 10 & M32,
                "iat": values["iat"] & M32,
                "packet_type": kind,
                **{f"bytes_{row}": size & M32 for row, (size, _) in enumerate(cells)},
                **{f"packets_{row}": count & M16 for row, (_, count) in enumerate(cells)},
                "ack": packet.tcp.ack if packet.tcp else 0,
                "seq": values["data_seq"],
                "timestamp": packet.now & (1 << 48) - 1,
            },
        )
