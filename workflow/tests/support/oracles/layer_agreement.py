"""Compare the core and tshark on a frame's layers 2 to 4, and identify differences that are errors of tshark.

Layers 2 to 4 of a frame are the tokens of its ``frame.protocols`` that schemas/protocols.tsv lists with a layer other
than ``app`` and ``payload``, at any position, plus VLAN ids, MPLS labels, innermost addresses and ports, and TCP
flags and numbers. schemas/tshark_errata.yaml lists cases in which tshark deviates from an RFC.
"""

import functools
import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from acapella_testing.csv_rows import read_rows

from acapella_core import schemas

# Fields that tshark must print for the comparison.
FIELDS = (
    "frame.protocols", "vlan.id", "ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid", "mpls.label",
    "ip.src", "ip.dst", "ip.len", "ip.id", "ipv6.src", "ipv6.dst",
    "tcp.srcport", "tcp.dstport", "tcp.flags", "tcp.seq_raw", "tcp.ack_raw", "tcp.len",
    "udp.srcport", "udp.dstport", "sctp.srcport", "sctp.dstport", "eth.dst",
)  # fmt: skip

# The core has no keys for incomplete headers, while tshark prints the available part.
NO_ADDRESSES = frozenset({"truncated_ipv4", "truncated_ipv6", "bad_ip_version", "bad_ipv4_header_length",
                          "bad_ipv4_total_length"})  # fmt: skip
NO_PORTS = NO_ADDRESSES | {"truncated_tcp", "truncated_udp", "truncated_sctp", "bad_tcp_header_length"}
NETWORKS = ("ip", "ipv6")
TRANSPORTS = ("tcp", "udp", "sctp")


@functools.cache
def tokens() -> dict[str, dict[str, str]]:
    """Return the rows of schemas/protocols.tsv by token."""
    return {row["token"]: row for row in read_rows(schemas.root() / "protocols.tsv")}


@functools.cache
def layers(protocols: str) -> tuple[str, ...]:
    """Return the tokens of layers 2 to 4, tunnels and glue of a ``frame.protocols``."""
    table = tokens()
    return tuple(
        token for token in protocols.split(":") if token in table and table[token]["layer"] not in ("app", "payload")
    )


@dataclass(frozen=True)
class Erratum:
    """An error of tshark: after ``after``, it prints ``tshark`` instead of ``ours``, which the RFC requires.

    The frame that follows then seems to have a destination address that begins with ``destination``.
    """

    name: str
    after: str
    ours: str
    tshark: str
    destination: str
    frame: bytes
    encapsulated: Mapping[str, int]

    def covers(self, ours: tuple[str, ...], theirs: tuple[str, ...], destinations: str) -> bool:
        """Return whether this is the first difference of a frame's layers; ``destinations`` is tshark's eth.dst."""
        first = next((at for at, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
        return (
            first is not None
            and first > 0
            and (ours[first - 1], ours[first], theirs[first]) == (self.after, self.ours, self.tshark)
            and nth(destinations, theirs[:first].count("eth")).startswith(self.destination)
        )


@functools.cache
def errata() -> tuple[Erratum, ...]:
    """Return the errata of schemas/tshark_errata.yaml that concern layers 2 to 4."""
    listed = yaml.safe_load((schemas.root() / "tshark_errata.yaml").read_text(encoding="utf-8"))
    return tuple(
        Erratum(
            entry["name"],
            **entry["tokens"],
            frame=bytes.fromhex(entry["frame"]),
            encapsulated=entry["encapsulated"],
        )
        for entry in listed
        if entry["excuses"] == "after_mpls"
    )  # fmt: skip


def erratum_of(ours: str, theirs: str, destinations: str) -> str | None:
    """Return the name of the erratum that explains why two ``frame.protocols`` differ in layers 2 to 4."""
    return next((entry.name for entry in errata() if entry.covers(layers(ours), layers(theirs), destinations)), None)


def differing_keys(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the names of the keys that differ, for a frame whose layers are equal.

    ``ours`` has the columns of the core (protocols, issue, vlan, mpls, src, dst, src_port, dst_port, tcp_flags,
    tcp_seq, tcp_ack, payload_len, ip_id) as text: lists separated by commas, empty if null. ``theirs`` has FIELDS.
    """
    found = [name for name, pair in tag_pairs(ours, theirs).items() if pair[0] != pair[1]]
    network, at, transport, transport_at = innermost(ours["protocols"])
    if network is None or ours["issue"] in NO_ADDRESSES:
        return found
    found += [name for name in ("src", "dst") if not same_address(ours[name], nth(theirs[f"{network}.{name}"], at))]
    if network == "ip" and int(ours["ip_id"]) != int(nth(theirs["ip.id"], at), 16):
        found.append("ip_id")
    if transport in TRANSPORTS and ours["issue"] not in NO_PORTS:
        pairs = transport_pairs(ours, theirs, transport, transport_at)
        found += [name for name, pair in pairs.items() if pair[0] != pair[1]]
    return found


@functools.cache
def innermost(protocols: str) -> tuple[str | None, int, str | None, int]:
    """Return a frame's innermost network layer and last layer but MPTCP, each with the number of equal ones before."""
    stack = unquoted(layers(protocols))
    network = next((token for token in reversed(stack) if token in NETWORKS), None)
    transport = next((token for token in reversed(stack) if token != "mptcp"), None)
    return network, stack.count(network) - 1, transport, stack.count(transport) - 1


def unquoted(stack: tuple[str, ...]) -> tuple[str, ...]:
    """Return a frame's layers without those of a packet quoted by an ICMP error."""
    for at, token in enumerate(stack[:-1]):
        if token in ("icmp", "icmpv6") and stack[at + 1] in NETWORKS:
            return stack[: at + 1]
    return stack


def tag_pairs(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, tuple]:
    """Return tags and labels of both. tshark prints service tags in separate fields, so tags are compared as sets."""
    if ours["issue"] == "truncated_vlan":
        return {}
    fields = ("ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid", "vlan.id")
    theirs_vlan = [tag for name in fields for tag in theirs[name].split(",") if tag]
    vlan = (sorted(tag for tag in ours["vlan"].split(",") if tag), sorted(theirs_vlan))
    return {"vlan": vlan, "mpls": (ours["mpls"], theirs["mpls.label"])}


def transport_pairs(ours: Mapping[str, str], theirs: Mapping[str, str], transport: str, at: int) -> dict[str, tuple]:
    """Return ports, and TCP flags, numbers and payload length, of both."""
    fields = {"src_port": f"{transport}.srcport", "dst_port": f"{transport}.dstport"}
    if transport == "tcp":
        fields |= {"tcp_flags": "tcp.flags", "tcp_seq": "tcp.seq_raw", "tcp_ack": "tcp.ack_raw"}
        fields |= {"payload_len": "tcp.len"} if nth(theirs["tcp.len"], at) else {}
    pairs = {name: (ours[name], nth(theirs[field], at)) for name, field in fields.items()}
    if flags := pairs.get("tcp_flags", ("", ""))[1]:
        pairs["tcp_flags"] = (ours["tcp_flags"], str(int(flags, 16)))
    return pairs


def nth(values: str, at: int) -> str:
    """Return element ``at`` of a comma-separated list; empty if there is none."""
    listed = values.split(",")
    return listed[at] if at < len(listed) else ""


def same_address(ours: str, theirs: str) -> bool:
    """Return whether two texts are the same address. Two empty texts are equal."""
    return ours == theirs or ("" not in (ours, theirs) and ipaddress.ip_address(ours) == ipaddress.ip_address(theirs))


@dataclass
class Agreement:
    """Counts of a comparison, and its first differences."""

    frames: int = 0
    sure: int = 0
    whole: int = 0  # the core is certain and has no layers above; tshark's whole text equals the core's
    whole_wrong: int = 0  # the core is certain and has no layers above, but tshark has more
    disagreements: int = 0

    def __post_init__(self):
        self.errata: Counter[str] = Counter()
        self.first: list[str] = []

    def add(self, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
        """Compare one frame. Only what the core is certain of counts."""
        self.frames += 1
        if ours["sure"] != "1":
            return
        self.sure += 1
        if layers(ours["protocols"]) != layers(theirs["frame.protocols"]):
            if name := erratum_of(ours["protocols"], theirs["frame.protocols"], theirs["eth.dst"]):
                self.errata[name] += 1
            else:
                self.differ(ours, theirs, "protocols")
            return
        if keys := differing_keys(ours, theirs):
            self.differ(ours, theirs, ",".join(keys))
        if ours["open_above"] != "1":
            equal = ours["protocols"] == theirs["frame.protocols"]
            self.whole += equal
            self.whole_wrong += not equal

    def differ(self, ours: Mapping[str, str], theirs: Mapping[str, str], what: str) -> None:
        self.disagreements += 1
        if len(self.first) < 10:
            self.first.append(f"frame {self.frames}: {what}: {ours['protocols']} | tshark {theirs['frame.protocols']}")

    @property
    def sure_share(self) -> float:
        return self.sure / self.frames if self.frames else 1.0

    @property
    def errata_share(self) -> float:
        return sum(self.errata.values()) / self.frames if self.frames else 0.0
