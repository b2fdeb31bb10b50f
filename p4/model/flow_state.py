"""What flowstats.p4 keeps of a flow in its slot: times, handshake, sequence numbers, acknowledgments."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from acapella_p4_model.flow_key import Key

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
FIN, SYN, RST, ACK = 1, 2, 4, 16

HOLES = 8  # open holes that a slot keeps
WINDOW = 1 << 30  # RFC 7323 section 2.3: no window is larger

# Bits of slot_state: which of a slot's values hold. SYN: isn and syn_time; REPEATED, ANSWERED, SYN_ACK are that SYN's.
# BASE, FLOOR: slot_base and slot_floor are less than a window behind. FIN: one was sent. ENDED: it was acknowledged, or
# an RST came. PENDING: an acknowledgment that no report has had.
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
# What a flow that takes a slot starts from 0; the others count only where slot_state says that they hold.
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
    """A register array of zeros, of which only what was written is kept."""

    def __missing__(self, index: int) -> int:
        return 0


def signed(value: int, bits: int) -> int:
    """The two's complement of `value` modulo 2^bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass
class Packet:
    """What the steps of one packet share."""

    key: Key
    now: int
    ip_length: int
    payload: int
    port: int
    probe: bool
    tcp: SimpleNamespace | None  # flags, seq, ack, window: where the header is whole
    tags_whole: bool
    slot: int = 0
    held: bool = False  # the slot is this flow's
    new: bool = False  # since this packet
    first: bool = False  # of the flow in this epoch
    advances: bool = False  # its ACK is above all before it
    peer: int = 0
    peer_held: bool = False
    cells: list[tuple[int, int]] = field(default_factory=list)  # of the flow's rows: bytes, packets

    def has(self, flags: int) -> bool:
        return self.tcp is not None and self.tcp.flags & flags != 0


class Slots:
    """The registers of all slots, and what a packet does to its flow's and to the reverse flow's."""

    def __init__(self) -> None:
        self.registers = {name: Sparse() for name in SLOT_REGISTERS}

    def get(self, name: str, slot: int) -> int:
        return self.registers["slot_" + name][slot]

    def set(self, name: str, slot: int, value: int) -> None:
        self.registers["slot_" + name][slot] = value

    def mark(self, slot: int, on: int, off: int = 0) -> None:
        """Sets and clears bits of the state."""
        self.set("state", slot, self.get("state", slot) & ~off | on)

    def follow_times(self, packet: Packet) -> None:
        slot = packet.slot
        self.set("unreported", slot, self.get("unreported", slot) + 1 & M32)
        if not packet.new:
            gap = signed(packet.now - self.get("last", slot), 64)
            if gap >= 0:
                self.set("iat", slot, gap)
                self.mark(slot, S_IAT)
            else:  # time went back: there is no such inter-arrival time
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
        """True where this SYN opens a connection; one like the SYN before it is a retransmission."""
        slot, state = packet.slot, self.get("state", packet.slot)
        if state & S_SYN and self.get("isn", slot) == packet.tcp.seq:
            if not state & S_ANSWERED:
                self.mark(slot, S_REPEATED)
            return False
        self.mark(
            slot,
            S_SYN | (S_SYN_ACK if packet.has(ACK) else 0),
            # ports may be used again
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
            for place in range(HOLES * slot, HOLES * slot + HOLES):
                self.registers["slot_hole_start"][place] = self.registers["slot_hole_end"][place] = 0
            return
        if occupies:
            self._follow_holes(slot, begin, end, fin)

    def _follow_holes(self, slot: int, begin: int, end: int, fin: int) -> None:
        """Gaps and retransmissions, exact while HOLES holes are open at most.

        Numbers are counted from the highest so far, which is 0: what came before is negative.
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

    def _near(self, name: str, bit: int, slot: int, highest: int) -> int:
        """A number of the slot counted from the highest; far below all others where it is not near."""
        near = self.get("state", slot) & bit
        return -(highest - self.get(name, slot) & M32) if near else -(1 << 32)

    def _follow_old_data(self, slot: int, highest: int, seen: tuple[int, int], last: int, *, fin: bool) -> None:
        """Data below the highest number; fin: the last of these numbers is a FIN's."""
        first, stop = seen
        base, floor = (self._near(*of, slot, highest) for of in (("base", S_BASE), ("floor", S_FLOOR)))
        new = max(min(stop, base) - first, 0)
        if new:  # below all that was seen
            self.set("base", slot, highest + first & M32)
            at_syn = self.get("state", slot) & S_SYN and self.get("isn", slot) + 1 & M32 == highest + base & M32
            missing = base - stop - (1 if at_syn else 0)  # the SYN's number was seen
            if missing > 0:
                self._add("gap", slot, missing)
                self._forget(slot, highest, (stop, base), missing)
        unsure = max(min(stop, floor) - max(first, base), 0)
        matched = min(unsure, self.get("forgotten", slot))
        self._add("forgotten", slot, -matched)
        self._add("uncertain", slot, matched)
        missed_fin = fin and any(start < stop <= end for start, end in self._holes(slot, highest))
        filled = self._scan(slot, highest, seen, last)
        self._add("gap", slot, -matched - filled)
        again = stop - first - filled - new - matched
        self._add("retransmitted", slot, again - (1 if fin and again and not missed_fin else 0))

    def _add(self, name: str, slot: int, more: int) -> None:
        self.set(name, slot, self.get(name, slot) + more & M64)

    def _forget(self, slot: int, highest: int, hole: tuple[int, int], raw: int | None = None) -> None:
        """From now on data below the floor is a retransmission, or fills a hole that was forgotten."""
        self._add("forgotten", slot, hole[1] - hole[0] if raw is None else raw)
        if hole[1] > self._near("floor", S_FLOOR, slot, highest):
            self.set("floor", slot, highest + hole[1] & M32)
            self.mark(slot, S_FLOOR)

    def _scan(
        self, slot: int, highest: int, seen: tuple[int, int], last: int, opened: tuple[int, int] | None = None
    ) -> int:
        """Takes what was seen out of the slot's holes; the bytes that filled one.

        A new hole goes to the first free place, else to that of the lowest, which is forgotten. So are holes a window
        and more below `last`, the new highest.
        """
        places = range(HOLES * slot, HOLES * slot + HOLES)
        filled, holes = 0, {}
        for place, (start, stop) in zip(places, self._holes(slot, highest), strict=True):
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
            self._write_hole(place, highest, hole)
            if hole[0] < hole[1]:
                holes[place] = hole
        if opened and opened[1] - opened[0] >= WINDOW:
            self._forget(slot, highest, opened)
        elif opened:
            place = next((one for one in places if one not in holes), None)
            if place is None:
                place = min(holes, key=holes.get)
                self._forget(slot, highest, holes[place])
            self._write_hole(place, highest, opened)
        for name, bit in (("base", S_BASE), ("floor", S_FLOOR)):
            if self.get("state", slot) & bit and (highest + last - self.get(name, slot) & M32) >= WINDOW:
                self.mark(slot, 0, bit)
                self.set("forgotten", slot, 0 if bit == S_FLOOR else self.get("forgotten", slot))
        return filled

    def _holes(self, slot: int, highest: int) -> list[tuple[int, int]]:
        """The slot's holes, counted from the highest number; free places have equal ends."""
        ends = [self.registers[f"slot_hole_{end}"] for end in ("start", "end")]
        places = range(HOLES * slot, HOLES * slot + HOLES)
        return [tuple(-(highest - end[place] & M32) for end in ends) for place in places]

    def _write_hole(self, place: int, highest: int, hole: tuple[int, int]) -> None:
        for end, number in zip(("start", "end"), hole, strict=True):
            self.registers[f"slot_hole_{end}"][place] = highest + number & M32

    # What a packet says of the other direction

    def _follow_handshake(self, packet: Packet) -> None:
        """Both halves of the round trip, where one SYN and one SYN-ACK could be meant (Karn 1987)."""
        peer, state = packet.peer, self.get("state", packet.peer)
        if not state & S_SYN or state & S_ANSWERED or bool(state & S_SYN_ACK) == packet.has(SYN):
            return
        beyond = signed(packet.tcp.ack - self.get("isn", peer) - 1, 32)
        if packet.has(SYN):
            if beyond and packet.tcp.ack != self.get("seq_end", peer):  # RFC 7413: data of the SYN may be in it
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
        """RFC 5681 section 2, (a) to (e), of the peer's data."""
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
