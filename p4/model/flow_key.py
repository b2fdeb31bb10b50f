"""The flow key of flowstats.p4, and its hashes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from acapella_p4_model import hashes
from acapella_p4_model.parsing import ICMP, ICMPV6, Parsed

ECHOES = (0, 8, 128, 129)  # ICMP and ICMPv6 types whose second word begins with an identifier


@cache
def _digest(raw: bytes) -> tuple[int, int]:
    return hashes.crc32(raw), hashes.jhash(raw)


@cache
def _row_hash(raw: bytes) -> int:
    return hashes.jhash(raw)


@dataclass(frozen=True)
class Key:
    """The key of a directed flow: tags of all layers, endpoints of the innermost IP header."""

    src: int
    dst: int
    src_port: int
    dst_port: int
    ip_version: int
    ip_proto: int
    vlan_count: int
    vlans: int  # 16 bits each, the innermost in the lowest
    mpls_count: int = 0
    labels: tuple[int, int, int, int] = (0, 0, 0, 0)

    @classmethod
    def of(cls, parsed: Parsed) -> Key:
        flow, ports = parsed.flow, (parsed.flow.src_port, parsed.flow.dst_port)
        if parsed.transport in (ICMP, ICMPV6):
            kind = parsed.icmp.type
            ports = kind << 8 | parsed.icmp.code, parsed.icmp.identifier if kind in ECHOES else 0
        return cls(
            flow.src_high << 64 | flow.src_low,
            flow.dst_high << 64 | flow.dst_low,
            *ports,
            flow.ip_version,
            flow.ip_proto,
            flow.vlan_count,
            flow.vlans,
            flow.mpls_count,
            (flow.label_1, flow.label_2, flow.label_3, flow.label_4),
        )

    def reversed(self) -> Key:
        """Return the key of the other direction without labels, which differ per direction."""
        ports = (self.dst_port, self.src_port)
        return Key(self.dst, self.src, *ports, self.ip_version, self.ip_proto, self.vlan_count, self.vlans)

    def with_labels(self, first_three: int, fourth: int) -> Key:
        """Return the key with a slot's packed labels."""
        three = tuple(first_three >> shift & 0xFFFFF for shift in (44, 24, 4))
        rest = (self.vlan_count, self.vlans, first_three & 0xF, (*three, fourth))
        return Key(self.src, self.dst, self.src_port, self.dst_port, self.ip_version, self.ip_proto, *rest)

    @property
    def packed_labels(self) -> int:
        first, second, third, _ = self.labels
        return first << 44 | second << 24 | third << 4 | self.mpls_count

    def report_fields(self) -> dict[str, int]:
        """Return the fields of a report that identify the flow, with up to four VLAN tags, the outermost first."""
        vlans = min(self.vlan_count, 4)
        ids = [self.vlans >> 16 * (vlans - 1 - at) & 0xFFFF if at < vlans else 0 for at in range(4)]
        names = ("ip_version", "ip_proto", "mpls_count", "src_port", "dst_port", "src", "dst")
        fields = {name: getattr(self, name) for name in names} | {"vlan_count": vlans}
        fields |= {f"vlan_{at}": vlan for at, vlan in enumerate(ids)}
        return fields | {f"mpls_{at}": label for at, label in enumerate(self.labels)}

    def raw(self) -> bytes:
        """Return all fields except the labels, as the program hashes them."""
        return b"".join(
            (
                self.src.to_bytes(16, "big"),
                self.dst.to_bytes(16, "big"),
                self.src_port.to_bytes(2, "big"),
                self.dst_port.to_bytes(2, "big"),
                bytes((self.ip_version, self.ip_proto, self.vlan_count, 0)),
                self.vlans.to_bytes(8, "big"),
            )
        )

    def digest(self) -> tuple[int, int]:
        """Return CRC and jhash of the raw key, 32 bits each."""
        return _digest(self.raw())

    def row_hash(self, row: int) -> int:
        """Return the hash that selects a cell of a row: jhash of the row's number, the digest and the labels.

        Rows are independent for different digests: jhash mixes the number into every bit, which an affine hash such
        as a CRC does not.
        """
        crc, jhash = self.digest()
        raw = b"".join(value.to_bytes(4, "big") for value in (row, crc, jhash))
        raw += self.packed_labels.to_bytes(8, "big") + self.labels[3].to_bytes(4, "big")
        return _row_hash(raw)
