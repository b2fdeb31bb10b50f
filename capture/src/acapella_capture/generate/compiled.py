"""A compiled model: the input of acapella-dpdk-generate (`text`; its format is in capture/generate/README.md)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class VaryingValues:
    """The values of a field that varies. ``kind``: increment, interleave (``values``), or random."""

    kind: str
    start: int = 0
    step: int = 0
    count: int = 0  # number of different values
    key: int = 0
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Field:
    """A field of a header: ``value`` is constant, or ``varying`` is set. ``bit`` is its position in the packet."""

    header: int
    name: str
    bit: int
    bits: int
    value: int
    varying: VaryingValues | None = None


@dataclass(frozen=True)
class Length:
    """A length field: the packet's length minus ``base``; ``delta`` is added in every N-th packet."""

    header: int
    offset: int
    base: int
    delta: int = 0
    every: int = 0


@dataclass(frozen=True)
class Checksum:
    """A checksum over the bytes ``start`` to ``end`` (0: the end of the packet), wrong in every N-th packet."""

    header: int
    offset: int
    start: int
    end: int = 0
    pseudo: int = 0
    pseudo_bytes: int = 0
    protocol: int = 0
    udp: bool = False
    every: int = 0


@dataclass(frozen=True)
class Distribution:
    """A distribution of random numbers.

    ``kind``: constant, exponential (mean ``scale``), or pareto (minimum ``scale``, ``shape``).
    """

    kind: str
    scale: float
    shape: float = 0.0
    key: int = 0

    def tokens(self) -> tuple[Any, ...]:
        """Return the tokens of this distribution in the model text."""
        return self.kind, self.scale.hex(), self.shape.hex(), self.key


@dataclass(frozen=True)
class Gaps:
    """The gaps between the packets of a flow.

    ``kind``: constant (``ns`` and ``remainder``/``denominator``), rate, random (``random``), on_off (bursts:
    ``random``, pauses: ``off``), or list (``values``).
    """

    kind: str
    ns: int = 0
    remainder: int = 0
    denominator: int = 1
    random: Distribution | None = None
    off: Distribution | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """The packet sizes of a flow.

    ``kind``: constant, uniform, weighted (``thresholds`` in units of 2^-32), exponential, or list. Uniform and
    exponential sizes are ``minimum`` to ``minimum + count - 1`` bytes. Without the upper limit, exponential sizes would
    exceed ``minimum`` by ``mean`` on average; ``range_probability`` is the probability of a size within the limit.
    """

    kind: str
    minimum: int = 0
    count: int = 1
    mean: float = 0.0
    range_probability: float = 0.0
    key: int = 0
    values: tuple[int, ...] = ()
    thresholds: tuple[int, ...] = ()

    @property
    def smallest(self) -> int:
        """The smallest size."""
        return min(self.values) if self.values else self.minimum

    @property
    def largest(self) -> int:
        """The largest size."""
        return max(self.values) if self.values else self.minimum + self.count - 1


@dataclass(frozen=True)
class Flow:
    """A flow. Times are relative to the start of the traffic.

    ``packets``, ``until_ns`` and ``rate_bps``: 0 means no limit.
    """

    name: str
    protocols: tuple[str, ...]
    offsets: tuple[int, ...]  # offsets of the headers
    template: bytes
    fields: tuple[Field, ...]
    lengths: tuple[Length, ...]
    checksums: tuple[Checksum, ...]  # innermost first
    gaps: Gaps
    sizes: Sizes
    packets: int
    start_ns: int
    until_ns: int
    rate_bps: int
    pattern: str
    stamp: int | None
    truncate: tuple[int, int] = (0, 0)  # bytes, every

    @property
    def pattern_offset(self) -> int:
        """The offset of the first byte of the payload pattern."""
        return len(self.template) if self.stamp is None else self.stamp + STAMP_BYTES

    @property
    def varying(self) -> tuple[Field, ...]:
        """The fields that vary."""
        return tuple(header_field for header_field in self.fields if header_field.varying)


STAMP_BYTES = 18


@dataclass
class NumberLists:
    """The lists of numbers in the model text, without duplicates."""

    known: dict[tuple[int, ...], int] = field(default_factory=dict)

    def number(self, values: tuple[int, ...]) -> int:
        """Return the index of a list; add the list if it is new."""
        return self.known.setdefault(values, len(self.known))


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model."""

    sha256: str
    seed: int
    start_ns: int
    rate_bps: int
    flows: tuple[Flow, ...]

    def text(self) -> str:
        """Return the input of acapella-dpdk-generate."""
        lists = NumberLists()
        flows = [" ".join(map(str, tokens)) for flow in self.flows for tokens in lines_of(flow, lists)]
        head = ["acapella-model 1", f"port {self.rate_bps}"]
        head += [f"list {len(values)} {' '.join(map(str, values))}" for values in lists.known]
        return "\n".join([*head, f"flows {len(self.flows)}", *flows, ""])


def container(header_field: Field) -> tuple[int, int, int]:
    """Return offset, width and shift of the 1, 2, 4 or 8 bytes that contain a field of at most 64 bits."""
    first, last = header_field.bit // 8, (header_field.bit + header_field.bits - 1) // 8
    width = next(width for width in (1, 2, 4, 8) if width > last - first)
    offset = max(0, last + 1 - width)
    return offset, width, 8 * (offset + width) - header_field.bit - header_field.bits


def lines_of(flow: Flow, lists: NumberLists) -> Iterator[tuple[Any, ...]]:
    """Yield the tokens of each line of a flow."""
    stamp = flow.stamp or 0
    head = (flow.packets, flow.start_ns, flow.until_ns, flow.rate_bps, flow.pattern, stamp, flow.template.hex())
    yield ("flow", *head)
    for header_field in flow.varying:
        varying = header_field.varying
        offset, width, shift = container(header_field)
        values = (varying.start, varying.step, varying.count % 2**64, varying.key)
        rest = (lists.number(varying.values),) if varying.values else values
        yield ("field", offset, width, shift, min(header_field.bits, 64), varying.kind, *rest)
    for length in flow.lengths:
        yield "length", length.offset, length.base, length.delta, length.every
    for checksum in flow.checksums:
        pseudo = (checksum.pseudo, checksum.pseudo_bytes, checksum.protocol, int(checksum.udp), checksum.every)
        yield ("checksum", checksum.offset, checksum.start, checksum.end, *pseudo)
    if flow.truncate[0]:
        yield ("truncate", *flow.truncate)
    yield ("gap", flow.gaps.kind, *gap_tokens(flow.gaps, lists))
    yield ("size", flow.sizes.kind, *size_tokens(flow.sizes, lists))


def gap_tokens(gaps: Gaps, lists: NumberLists) -> tuple[Any, ...]:
    """Return the tokens that follow the kind of gaps."""
    return {
        "constant": lambda: (gaps.ns, gaps.remainder, gaps.denominator),
        "rate": lambda: (gaps.denominator,),
        "random": lambda: (*gaps.random.tokens(),),
        "on_off": lambda: (gaps.ns, *gaps.random.tokens(), *gaps.off.tokens()),
        "list": lambda: (lists.number(gaps.values),),
    }[gaps.kind]()


def size_tokens(sizes: Sizes, lists: NumberLists) -> tuple[Any, ...]:
    """Return the tokens that follow the kind of sizes."""
    return {
        "constant": lambda: (sizes.minimum, 1),
        "uniform": lambda: (sizes.minimum, sizes.count, sizes.key),
        "weighted": lambda: (lists.number(sizes.values), lists.number(sizes.thresholds), sizes.key),
        "exponential": lambda: (sizes.minimum, sizes.count, sizes.mean.hex(), sizes.range_probability.hex(), sizes.key),
        "list": lambda: (lists.number(sizes.values),),
    }[sizes.kind]()
