"""Model of a slot of flowstats.p4: times, handshake, sequence numbers, acknowledgments."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from acapella_p4_model.flow_key import Key

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
FIN, SYN, RST, ACK = 1, 2, 4, 16

HOLES = 8  # open holes per slot
WINDOW = 1 << 30  # RFC 7323 section 2.3: no window is larger

# Bits of slot_state: which values of a slot are valid. SYN: isn and syn_time; REPEATED, ANSWERED, SYN_ACK refer to that
# SYN. BASE, FLOOR: slot_base and slot_floor are less than a window from the highest number. FIN: one was sent. ENDED:
# it was acknowledged, or an RST was sent. PENDING: an acknowledgment has not been reported.
(
    S_IAT,
    S_SEQ,
    S_ACK,
    S_SYN,
    S_REPEATED,
    S_ANSWERED,
    S_SYN_ACK,
    S_RTT_SYN,
    S_RTT_ACK,
    S_DATA,
    S_BASE,
    S_FLOOR,
    S_FIN,
    S_ENDED,
    S_PENDING,
    S_NUMBERS,
) = (1 << bit for bit in range(16))
SLOT_REGISTERS = (
    "slot_fingerprint",
    "slot_labels",
    "slot_label_4",
    "slot_state",
    "slot_start",
    "slot_last",
    "slot_iat",
    "slot_epoch",
    "slot_reported",
    "slot_unreported",
    "slot_isn",
    "slot_syn_time",
    "slot_rtt_syn",
    "slot_rtt_ack",
    "slot_data_seq",
    "slot_seq_end",
    "slot_hole_start",
    "slot_hole_end",
    "slot_ack",
    "slot_first_ack",
    "slot_window",
    "slot_duplicate_acks",
    "slot_retransmitted",
    "slot_gap",
    "slot_payload",
    "slot_base",
    "slot_floor",
    "slot_forgotten",
    "slot_uncertain",
)
# Values that are set to 0 when a flow allocates a slot. The others are set to other values then, or are valid only if
# slot_state has their bit.
ZEROED = (
    "slot_state",
    "slot_unreported",
    "slot_duplicate_acks",
    "slot_retransmitted",
    "slot_gap",
    "slot_uncertain",
    "slot_payload",
)


class Sparse(dict):
    """A register array that stores only written entries; the others are 0."""

    def __missing__(self, index: int) -> int:
        return 0


def signed(value: int, bits: int) -> int:
    """Return `value` modulo 2^bits as a signed number (two's complement)."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass
class Packet:
    """Values shared by the steps of one packet."""

    key: Key
    now: int
    ip_length: int
    payload: int
    port: int
    probe: bool
    tcp: SimpleNamespace | None  # flags, seq, ack, window: if the header is complete
    tags_whole: bool
    slot: int = 0
    held: bool = False  # the flow has the slot
    new: bool = False  # the slot was allocated for this packet
    first: bool = False  # first packet of the flow in this epoch
    advances: bool = False  # its ACK is above all previous ones
    peer: int = 0
    peer_held: bool = False
    cells: list[tuple[int, int]] = field(default_factory=list)  # bytes and packets of each row

    def has(self, flags: int) -> bool:
        return self.tcp is not None and self.tcp.flags & flags != 0


class Slots:
    """The registers of all slots, and their updates for the flow and the reverse flow of a packet."""

    def __init__(self) -> None:
        self.registers = {name: Sparse() for name in SLOT_REGISTERS}

    def get(self, name: str, slot: int) -> int:
        return self.registers["slot_" + name][slot]

    def set(self, name: str, slot: int, value: int) -> None:
        self.registers["slot_" + name][slot] = value

    def mark(self, slot: int, on: int, off: int = 0) -> None:
        """Set and clear bits of the state."""
        self.set("state", slot, self.get("state", slot) & ~off | on)

    def follow_times(self, packet: Packet) -> None:
        slot = packet.slot
        self.set("unreported", slot, self.get("unreported", slot) + 1 & M32)
        if not packet.new:
            gap = signed(packet.now - self.get("last", slot), 64)
            if gap >= 0:
                self.set("iat", slot, gap)
                self.mark(slot, S_IAT)
            else:  # time went backwards: no inter-arrival time
                self.mark(slot, 0, S_IAT)
        self.set("last", slot, packet.now)

    def follow_tcp(self, packet: Packet) -> None:
        if packet.held:
            opens = packet.has(SYN) and not packet.has(RST) and self._follow_syn(packet)
            if not packet.has(RST):
                self._follow_sequence(packet, opens)
            if packet.payload:
                self.set("data_seq", packet.slot, packet.tcp.seq)
                self.mark(packet.slot, S_DATA)
                self.set("payload", packet.slot, self.get("payload", packet.slot) + packet.payload & M64)
        if packet.peer_held and packet.has(ACK):
            if not packet.has(RST):
                self._follow_handshake(packet)
            self._follow_acknowledgment(packet)
        if packet.has(RST):
            for held, slot in ((packet.held, packet.slot), (packet.peer_held, packet.peer)):
                if held:
                    self.mark(slot, S_ENDED)

    def _follow_syn(self, packet: Packet) -> bool:
        """Return whether this SYN opens a connection; one with the number of the previous SYN is a retransmission."""
        slot, state = packet.slot, self.get("state", packet.slot)
        if state & S_SYN and self.get("isn", slot) == packet.tcp.seq:
            if not state & S_ANSWERED:
                self.mark(slot, S_REPEATED)
            return False
        self.mark(
            slot,
            S_SYN | (S_SYN_ACK if packet.has(ACK) else 0),
            # reused ports
            S_REPEATED | S_ANSWERED | S_SYN_ACK | S_RTT_SYN | S_RTT_ACK | S_ACK | S_FIN | S_ENDED,
        )
        self.set("isn", slot, packet.tcp.seq)
        self.set("syn_time", slot, packet.now)
        return True

    def _follow_sequence(self, packet: Packet, opens: bool) -> None:
        slot, data, fin = packet.slot, packet.payload, int(packet.has(FIN))
        begin = packet.tcp.seq + packet.has(SYN) & M32
        end = begin + data + fin & M32
        if fin:
            self.mark(slot, S_FIN)
        state, occupies = self.get("state", slot), data + fin > 0
        if occupies or packet.has(SYN):
            self.mark(slot, S_NUMBERS)
        if opens or not state & S_SEQ or (occupies and not state & S_NUMBERS):
            self.mark(slot, S_SEQ | S_BASE, S_FLOOR)
            self.set("seq_end", slot, end)
            self.set("base", slot, begin)
            self.set("forgotten", slot, 0)
            for entry in range(HOLES * slot, HOLES * slot + HOLES):
                self.registers["slot_hole_start"][entry] = self.registers["slot_hole_end"][entry] = 0
            return
        if occupies:
            self._follow_holes(slot, begin, end, fin)

    def _follow_holes(self, slot: int, begin: int, end: int, fin: int) -> None:
        """Update gaps and retransmissions, which are exact while at most HOLES holes are open.

        Numbers are relative to the highest so far, so earlier ones are negative.
        """
        highest = self.get("seq_end", slot)
        first, last = signed(begin - highest, 32), max(signed(end - highest, 32), 0)
        if first > 0:
            self._add("gap", slot, first)
            self._scan(slot, highest, (0, 0), last, opened=(0, first))
        elif first < 0:
            stop = first + (end - begin & M32)
            self._follow_old_data(slot, highest, (first, min(stop, 0)), last, fin=fin and stop <= 0)
        elif (highest ^ highest + last) & ~(WINDOW - 1) & M32:
            self._scan(slot, highest, (0, 0), last)
        self.set("seq_end", slot, highest + last & M32)

    def _relative_number(self, name: str, bit: int, slot: int, highest: int) -> int:
        """Return a number of the slot relative to the highest; far below all others if it is not valid."""
        valid = self.get("state", slot) & bit
        return -(highest - self.get(name, slot) & M32) if valid else -(1 << 32)

    def _follow_old_data(self, slot: int, highest: int, seen: tuple[int, int], last: int, *, fin: bool) -> None:
        """Handle data below the highest number; fin: the last of these numbers is a FIN."""
        first, stop = seen
        base = self._relative_number("base", S_BASE, slot, highest)
        floor = self._relative_number("floor", S_FLOOR, slot, highest)
        new = max(min(stop, base) - first, 0)
        if new:  # below all previous data
            self.set("base", slot, highest + first & M32)
            at_syn = self.get("state", slot) & S_SYN and self.get("isn", slot) + 1 & M32 == highest + base & M32
            missing = base - stop - (1 if at_syn else 0)  # the SYN's number was observed
            if missing > 0:
                self._add("gap", slot, missing)
                self._forget(slot, highest, (stop, base), missing)
        unclear = max(min(stop, floor) - max(first, base), 0)
        matched = min(unclear, self.get("forgotten", slot))
        self._add("forgotten", slot, -matched)
        self._add("uncertain", slot, matched)
        missed_fin = fin and any(start < stop <= end for start, end in self._holes(slot, highest))
        filled = self._scan(slot, highest, seen, last)
        self._add("gap", slot, -matched - filled)
        repeated = stop - first - filled - new - matched
        self._add("retransmitted", slot, repeated - (1 if fin and repeated and not missed_fin else 0))

    def _add(self, name: str, slot: int, amount: int) -> None:
        self.set(name, slot, self.get(name, slot) + amount & M64)

    def _forget(self, slot: int, highest: int, hole: tuple[int, int], count: int | None = None) -> None:
        """Drop a hole: from now on, data below the floor is a retransmission, or fills a dropped hole."""
        self._add("forgotten", slot, hole[1] - hole[0] if count is None else count)
        if hole[1] > self._relative_number("floor", S_FLOOR, slot, highest):
            self.set("floor", slot, highest + hole[1] & M32)
            self.mark(slot, S_FLOOR)

    def _scan(
        self, slot: int, highest: int, seen: tuple[int, int], last: int, opened: tuple[int, int] | None = None
    ) -> int:
        """Remove received data from the slot's holes; return the number of bytes that filled one.

        A new hole uses the first free entry, else that of the lowest hole, which is dropped. Holes a window or more
        below `last`, the new highest number, are also dropped.
        """
        entries = range(HOLES * slot, HOLES * slot + HOLES)
        filled, holes = 0, {}
        for entry, (start, stop) in zip(entries, self._holes(slot, highest), strict=True):
            if start == stop:
                continue
            left = [(start, stop)]
            if seen[0] < stop and seen[1] > start:
                filled += min(stop, seen[1]) - max(start, seen[0])
                left = [piece for piece in ((start, seen[0]), (seen[1], stop)) if piece[0] < piece[1]]
            if len(left) == 2:
                opened = left.pop()
            hole = left.pop() if left else (stop, stop)
            if last - hole[0] >= WINDOW and hole[0] < hole[1]:
                self._forget(slot, highest, hole)
                hole = (hole[1], hole[1])
            self._write_hole(entry, highest, hole)
            if hole[0] < hole[1]:
                holes[entry] = hole
        if opened and opened[1] - opened[0] >= WINDOW:
            self._forget(slot, highest, opened)
        elif opened:
            entry = next((entry for entry in entries if entry not in holes), None)
            if entry is None:
                entry = min(holes, key=holes.get)
                self._forget(slot, highest, holes[entry])
            self._write_hole(entry, highest, opened)
        for name, bit in (("base", S_BASE), ("floor", S_FLOOR)):
            if self.get("state", slot) & bit and (highest + last - self.get(name, slot) & M32) >= WINDOW:
                self.mark(slot, 0, bit)
                self.set("forgotten", slot, 0 if bit == S_FLOOR else self.get("forgotten", slot))
        return filled

    def _holes(self, slot: int, highest: int) -> list[tuple[int, int]]:
        """Return the slot's holes relative to the highest number; free entries have equal ends."""
        ends = [self.registers[f"slot_hole_{end}"] for end in ("start", "end")]
        entries = range(HOLES * slot, HOLES * slot + HOLES)
        return [tuple(-(highest - end[entry] & M32) for end in ends) for entry in entries]

    def _write_hole(self, entry: int, highest: int, hole: tuple[int, int]) -> None:
        for end, number in zip(("start", "end"), hole, strict=True):
            self.registers[f"slot_hole_{end}"][entry] = highest + number & M32

    # Updates of the reverse flow

    def _follow_handshake(self, packet: Packet) -> None:
        """Measure a half of the handshake RTT unless its SYN or SYN-ACK was retransmitted (Karn 1987)."""
        peer, state = packet.peer, self.get("state", packet.peer)
        if not state & S_SYN or state & S_ANSWERED or bool(state & S_SYN_ACK) == packet.has(SYN):
            return
        beyond = signed(packet.tcp.ack - self.get("isn", peer) - 1, 32)
        if packet.has(SYN):
            if beyond and packet.tcp.ack != self.get("seq_end", peer):  # RFC 7413: data of the SYN may be acknowledged
                return
        elif beyond < 0:
            return
        self.mark(peer, S_ANSWERED)
        if state & S_REPEATED or (beyond and not packet.has(SYN)):
            return
        name, bit = ("rtt_syn", S_RTT_SYN) if packet.has(SYN) else ("rtt_ack", S_RTT_ACK)
        round_trip = packet.now - self.get("syn_time", peer)
        if round_trip < 0:
            return
        for slot in (peer, packet.slot) if packet.held else (peer,):
            self.set(name, slot, round_trip)
            self.mark(slot, bit)

    def _follow_acknowledgment(self, packet: Packet) -> None:
        """Count duplicate ACKs of the peer's data (RFC 5681 section 2, (a) to (e))."""
        peer, state, number = packet.peer, self.get("state", packet.peer), packet.tcp.ack
        bare = packet.payload == 0 and not packet.has(SYN | FIN)
        if state & S_ACK:
            moved = signed(number - self.get("ack", peer), 32)
            same = moved == 0 and packet.tcp.window == self.get("window", peer)
            outstanding = signed(self.get("seq_end", peer) - number, 32) > 0
            if bare and same and state & S_SEQ and outstanding:
                self.set("duplicate_acks", peer, self.get("duplicate_acks", peer) + 1 & M32)
                self.mark(peer, S_PENDING)
            packet.advances = moved > 0
        else:
            packet.advances = True
            self.set("first_ack", peer, self.get("isn", peer) + 1 & M32 if state & S_SYN else number)
        if packet.advances:
            self.set("ack", peer, number)
            self.mark(peer, S_ACK | S_PENDING)
            if state & S_FIN and number == self.get("seq_end", peer):
                self.mark(peer, S_ENDED)
        self.set("window", peer, packet.tcp.window)
