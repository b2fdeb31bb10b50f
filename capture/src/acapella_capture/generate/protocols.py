"""The headers that a model can name, and their fields."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldType:
    """A field: its first bit in the header, its number of bits, and the default (None: the model must set it).

    ``kind``: integer, mac, ipv4 or ipv6.
    """

    bit: int
    bits: int
    default: int | None = 0
    kind: str = "integer"


@dataclass(frozen=True)
class Protocol:
    """A header of ``bytes`` bytes.

    ``next_field`` is the field that identifies the next header; ``space`` is its number space; ``length`` is the offset
    of the length field, whose value excludes the first ``length_base`` bytes of the header; ``checksum`` is the offset
    of the checksum.
    """

    bytes: int
    fields: dict[str, FieldType]
    next_field: str | None = None
    space: str | None = None
    fixed: tuple[tuple[int, int, int], ...] = ()  # (bit, bits, value)
    length: int | None = None
    length_base: int = 0
    checksum: int | None = None
    followers: tuple[str, ...] | None = None  # headers that may follow; None: all headers of the number space


PORT = {"src": FieldType(0, 16, None), "dst": FieldType(16, 16, None)}
TAG = {"pcp": FieldType(0, 3), "dei": FieldType(3, 1), "id": FieldType(4, 12, None), "type": FieldType(16, 16)}
ADDRESSES = {"src": FieldType(96, 32, None, "ipv4"), "dst": FieldType(128, 32, None, "ipv4")}
PROTOCOLS = {
    "ethernet": Protocol(
        14,
        {
            "dst": FieldType(0, 48, 0x020000000002, "mac"),
            "src": FieldType(48, 48, 0x020000000001, "mac"),
            "type": FieldType(96, 16),
        },
        next_field="type",
        space="ethertype",
    ),
    "vlan": Protocol(4, TAG, next_field="type", space="ethertype"),
    "svlan": Protocol(4, TAG, next_field="type", space="ethertype"),
    "mpls": Protocol(
        4,
        {
            "label": FieldType(0, 20, None),
            "tc": FieldType(20, 3),
            "bottom": FieldType(23, 1),
            "ttl": FieldType(24, 8, 64),
        },
        followers=("mpls", "pseudowire", "ipv4", "ipv6"),
    ),
    "pseudowire": Protocol(4, {"sequence": FieldType(16, 16)}, followers=("ethernet",)),
    "ipv4": Protocol(
        20,
        {
            "dscp": FieldType(8, 6),
            "ecn": FieldType(14, 2),
            "id": FieldType(32, 16),
            "flags": FieldType(48, 3, 2),
            "ttl": FieldType(64, 8, 64),
            "protocol": FieldType(72, 8),
            **ADDRESSES,
        },
        next_field="protocol",
        space="ip",
        fixed=((0, 8, 0x45),),
        length=2,
        checksum=10,
    ),
    "ipv6": Protocol(
        40,
        {
            "traffic_class": FieldType(4, 8),
            "flow_label": FieldType(12, 20),
            "protocol": FieldType(48, 8),
            "ttl": FieldType(56, 8, 64),
            "src": FieldType(64, 128, None, "ipv6"),
            "dst": FieldType(192, 128, None, "ipv6"),
        },
        next_field="protocol",
        space="ip",
        fixed=((0, 4, 6),),
        length=4,
        length_base=40,
    ),
    "tcp": Protocol(
        20,
        {
            **PORT,
            "sequence": FieldType(32, 32),
            "acknowledgment": FieldType(64, 32),
            "flags": FieldType(104, 8, 0x10),
            "window": FieldType(112, 16, 65535),
            "urgent": FieldType(144, 16),
        },
        fixed=((96, 4, 5),),
        checksum=16,
        followers=("bytes",),
    ),
    "udp": Protocol(8, PORT, length=4, checksum=6, followers=("vxlan", "bytes")),
    "vxlan": Protocol(8, {"vni": FieldType(32, 24, None)}, fixed=((0, 8, 0x08),), followers=("ethernet",)),
}
VXLAN_PORT = 4789  # RFC 7348
# Values that identify the next header; for `bytes` and the end of the headers (None), values for experiments.
NUMBERS = {
    "ethertype": {
        "vlan": 0x8100, "svlan": 0x88A8, "mpls": 0x8847, "ipv4": 0x0800, "ipv6": 0x86DD, "bytes": 0x88B6, None: 0x88B6,
    },
    "ip": {"ipv4": 4, "ipv6": 41, "tcp": 6, "udp": 17, "bytes": 253, None: 253},
}  # fmt: skip
TRANSPORT = {"tcp": 6, "udp": 17}
NETWORK = ("ipv4", "ipv6")
