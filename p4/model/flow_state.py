"""What flowstats.p4 keeps of a flow in its slot: times, handshake, sequence numbers, acknowledgments."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from acapella_p4_model.flow_key import Key

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
FIN, SYN, RST, ACK = 1, 2, 4, 16

# Bits of slot_state: which of a slot's values hold. SYN: isn and syn_time; REPEATED, ANSWERED, SYN_ACK are that SYN's.
S_IAT, S_SEQ, S_ACK, S_SYN, S_REPEATED, S_ANSWERED, S_SYN_ACK, S_RTT_SYN, S_RTT_ACK, S_DATA = (
    1 << bit for bit in range(10)
)
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
    "slot_seq",
    "slot_data_seq",
    "slot_seq_end",
    "slot_hole_start",
    "slot_hole_end",
    "slot_ack",
    "slot_window",
    "slot_duplicate_acks",
    "slot_retransmitted",
    "slot_gap",
    "slot_payload",
)
# What a flow that takes a slot starts from 0; the others count only where slot_state says that they hold.
ZEROED = ("slot_state", "slot_unreported", "slot_duplicate_acks", "slot_retransmitted", "slot_gap", "slot_payload")


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
            self.set("seq", packet.slot, packet.tcp.seq)
            if packet.payload:
                self.set("data_seq", packet.slot, packet.tcp.seq)
                self.mark(packet.slot, S_DATA)
                self.set("payload", packet.slot, self.get("payload", packet.slot) + packet.payload & M64)
        if packet.peer_held and packet.has(ACK):
            if not packet.has(RST):
                self._follow_handshake(packet)
            self._follow_acknowledgment(packet)

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
            S_REPEATED | S_ANSWERED | S_SYN_ACK | S_RTT_SYN | S_RTT_ACK | S_ACK,  # ports may be used again
        )
        self.set("isn", slot, packet.tcp.seq)
        self.set("syn_time", slot, packet.now)
        return True

    def _follow_sequence(self, packet: Packet, opens: bool) -> None:
        slot, data, fin = packet.slot, packet.payload, int(packet.has(FIN))
        begin = packet.tcp.seq + packet.has(SYN) & M32
        end = begin + data + fin & M32
        if opens or not self.get("state", slot) & S_SEQ:
            self.mark(slot, S_SEQ)
            for name in ("seq_end", "hole_start", "hole_end"):
                self.set(name, slot, end)
            return
        if data + fin == 0:
            return
        highest = self.get("seq_end", slot)
        ahead = signed(begin - highest, 32)
        if ahead > 0:
            self.set("gap", slot, self.get("gap", slot) + ahead & M64)
            self.set("hole_start", slot, highest)
            self.set("hole_end", slot, begin)
        elif ahead < 0 and data:
            self._sent_again(slot, highest, -ahead, min(-ahead, data))
        if signed(end - highest, 32) > 0:
            self.set("seq_end", slot, end)

    def _sent_again(self, slot: int, highest: int, behind: int, length: int) -> None:
        """`length` octets of data from `behind` octets below the highest on: they fill the latest hole, or were seen.

        Distances are below the highest, so that larger is earlier.
        """
        hole_from = highest - self.get("hole_start", slot) & M32
        hole_to = highest - self.get("hole_end", slot) & M32
        fill_from, fill_to = min(behind, hole_from), max(behind - length, hole_to)
        filled = max(fill_from - fill_to, 0)
        if filled:
            if fill_from == hole_from:
                self.set("hole_start", slot, self.get("hole_start", slot) + filled & M32)
            else:  # what lies above it is forgotten
                self.set("hole_end", slot, highest - fill_from & M32)
        self.set("gap", slot, self.get("gap", slot) - filled & M64)
        self.set("retransmitted", slot, self.get("retransmitted", slot) + length - filled & M64)

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
            packet.advances = moved > 0
        else:
            packet.advances = True
            self.mark(peer, S_ACK)
        if packet.advances:
            self.set("ack", peer, number)
        self.set("window", peer, packet.tcp.window)
