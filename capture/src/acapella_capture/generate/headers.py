"""Build the template of a flow from its list of headers: bytes, fields, lengths and checksums."""

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Any

from acapella_core.errors import UserError

from . import draws
from .compiled import Checksum, Field, Length, VaryingValues
from .protocols import NETWORK, NUMBERS, PROTOCOLS, TRANSPORT, VXLAN_PORT, FieldType, Protocol
from .reading import Section, integer, items, text_of

MAX_HEADERS = 16
MAX_BYTES = 1024
MAX_FIELDS = 32
MAX_LIST = 1 << 20
LOW_BITS = 64  # the low bits of an IPv6 address, which can vary
MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


@dataclass
class Header:
    """A header of a template."""

    name: str
    where: str
    bit: int  # position in the packet
    bytes: int
    fields: dict[str, Field]
    content: bytes = b""  # only of header `bytes`
    without_checksum: bool = False

    @property
    def offset(self) -> int:
        """The offset of the header in the packet, in bytes."""
        return self.bit // 8

    @property
    def protocol(self) -> Protocol:
        """The definition of the header."""
        return PROTOCOLS[self.name]


@dataclass(frozen=True)
class Template:
    """The headers of a flow, outermost first."""

    headers: tuple[Header, ...]
    content: bytes
    lengths: tuple[Length, ...]
    checksums: tuple[Checksum, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all headers."""
        return tuple(field for header in self.headers for field in header.fields.values())


def read(value: Any, where: str, *, seed: int, flow: int) -> Template:
    """Return the template for a list of headers. Raises UserError."""
    headers: list[Header] = []
    bit = 0
    for number, (item, item_where) in enumerate(items(value, where)):
        if number == MAX_HEADERS:
            raise UserError(f"more than {MAX_HEADERS} headers", where=where)
        header = read_header(item, item_where, number, bit, (seed, flow))
        headers.append(header)
        bit += 8 * header.bytes
    if headers[0].name not in ("ethernet", "bytes"):
        raise UserError("the first header is not ethernet or bytes", where=where)
    for number, (header, following) in enumerate(zip(headers, [*headers[1:], None], strict=True)):
        link(number, header, following)
    return finish(headers, bit // 8, where)


def read_header(item: Any, where: str, number: int, bit: int, origin: tuple[int, int]) -> Header:
    """Return a header. ``origin``: seed and flow of random values."""
    if isinstance(item, str):
        item = {item: {}}
    outer = Section(item, where)
    name = outer.one_of(*PROTOCOLS, "bytes")
    if name == "bytes":
        content = outer.take(name, hexadecimal)
        return Header(name, where, bit, len(content), {}, content)
    section = Section(outer.values[name] or {}, f"{where}.{name}")
    protocol = PROTOCOLS[name]
    header = Header(name, section.where, bit, protocol.bytes, {})
    if name in ("udp", "tcp") and "checksum" in section:
        section.take("checksum", integer(0, 0))
        header.without_checksum = True
    for key, kind in protocol.fields.items():
        if key == protocol.next_field and key not in section:
            continue  # link() sets it
        if name == "mpls" and key == "bottom" and key not in section:
            continue
        header.fields[key] = read_field(section, key, kind, (number, bit), origin)
    section.done()
    return header


def hexadecimal(value: Any, where: str) -> bytes:
    """Return the bytes of a string of hexadecimal digits. Without quotes, YAML reads 0123 as an octal number."""
    try:
        content = bytes.fromhex(value)
    except (TypeError, ValueError):
        content = b""
    if not 0 < len(content) <= MAX_BYTES:
        raise UserError(
            f"expected 1 to {MAX_BYTES} bytes in hexadecimal, in quotes, found {text_of(value)}", where=where
        )
    return content


def read_field(section: Section, key: str, kind: FieldType, at: tuple[int, int], origin: tuple[int, int]) -> Field:
    """Return a field of a header. ``at``: the number of the header and its first bit."""
    number, first = at
    field = Field(number, key, first + kind.bit, kind.bits, 0)
    value = section.values.pop(key, kind.default)
    where = section.location_of(key)
    if value is None:
        raise UserError(f"{key} is missing", where=section.where)
    if not isinstance(value, dict):
        return replace(field, value=constant(value, where, kind))
    return varying_field(field, Section(value, where), kind, draws.key_of(*origin, f"{number}.{key}"))


def varying_field(field: Field, section: Section, kind: FieldType, key: int) -> Field:
    """Return a field that varies. Increment and random have a first value and a count; interleave has a list."""
    variation = next((variation for variation in ("increment", "random", "interleave") if variation in section), None)
    if variation is None:
        raise UserError("expected a value, or increment, interleave or random", where=section.where)
    location = section.location_of(variation)
    value = section.values.pop(variation)
    bits = min(field.bits, LOW_BITS)
    if variation == "interleave":
        values = tuple(constant(item, where, kind) for item, where in items(value, location))
        if len(values) > MAX_LIST or len({number >> bits for number in values}) > 1:
            raise UserError(
                f"expected at most {MAX_LIST} values that differ only in the low {bits} bits", where=location
            )
        varying = VaryingValues(
            "interleave", values=tuple(number % (1 << bits) for number in values), count=len(values)
        )
        first = values[0]
    else:
        first = constant(value, location, kind)
        room = (1 << bits) - first % (1 << bits)
        step = 0 if variation == "random" else section.take("step", integer(1, room), 1)
        max_count = (room - 1) // step + 1 if step else room
        count = section.take("count", integer(1, max_count), max_count)
        if variation == "random" and count > 1 << 32 and count & (count - 1):
            raise UserError("a count above 2^32 must be a power of two", where=section.location_of("count"))
        varying = VaryingValues(variation, first % (1 << bits), step, count, key if variation == "random" else 0)
    section.done()
    shift = field.bits - bits
    return replace(field, value=first, varying=varying, bit=field.bit + shift, bits=bits)


def constant(value: Any, where: str, kind: FieldType) -> int:
    """Return the value of a field as an integer."""
    if kind.kind == "integer" or type(value) is int:
        return integer(0, (1 << kind.bits) - 1)(value, where)
    if kind.kind == "mac":
        if not isinstance(value, str) or not MAC.fullmatch(value):
            raise UserError(f"expected a MAC address in quotes, found {text_of(value)}", where=where)
        return int(value.replace(":", ""), 16)
    address = {"ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address}[kind.kind]
    try:
        return int(address(value))
    except ValueError as error:
        raise UserError(f"expected an {kind.kind} address, found {text_of(value)}", where=where) from error


def link(number: int, header: Header, following: Header | None) -> None:
    """Set the field of a header that identifies the next header. Raises UserError if that header cannot follow."""
    name = following.name if following else None
    if header.name == "bytes":
        return
    protocol = header.protocol
    known = (
        NUMBERS[protocol.space]
        if protocol.space
        else {follower: 0 for follower in protocol.followers or ()} | {None: 0}
    )
    if name not in known:
        raise UserError(f"{name} cannot follow {header.name}", where=following.where)
    if protocol.next_field and protocol.next_field not in header.fields:
        kind = protocol.fields[protocol.next_field]
        field = Field(number, protocol.next_field, header.bit + kind.bit, kind.bits, known[name])
        header.fields[protocol.next_field] = field
    if header.name == "mpls" and "bottom" not in header.fields:
        kind = protocol.fields["bottom"]
        header.fields["bottom"] = Field(number, "bottom", header.bit + kind.bit, kind.bits, int(name != "mpls"))
    if name == "vxlan" and header.fields["dst"].value != VXLAN_PORT:
        raise UserError(f"vxlan follows only udp with dst {VXLAN_PORT}", where=header.where)


def finish(headers: list[Header], size: int, where: str) -> Template:
    """Return the template for a list of headers whose fields are all set."""
    if size > MAX_BYTES:
        raise UserError(f"the headers are longer than {MAX_BYTES} bytes", where=where)
    content = 0
    for header in headers:
        content |= int.from_bytes(header.content) << 8 * (size - header.offset - header.bytes)
        fixed = () if header.name == "bytes" else header.protocol.fixed
        for bit, bits, value in fixed:
            content |= value << 8 * size - header.bit - bit - bits
        for field in header.fields.values():
            kind = header.protocol.fields[field.name]
            content |= field.value << 8 * size - header.bit - kind.bit - kind.bits
    lengths = tuple(length_of(number, header) for number, header in enumerate(headers) if has_length(header))
    checksums = [checksum_of(number, headers) for number in range(len(headers))]
    template = Template(tuple(headers), content.to_bytes(size), lengths, tuple(filter(None, reversed(checksums))))
    if sum(1 for field in template.fields if field.varying) > MAX_FIELDS:
        raise UserError(f"more than {MAX_FIELDS} fields vary", where=where)
    return template


def has_length(header: Header) -> bool:
    """Return whether a header has a length field."""
    return header.name != "bytes" and header.protocol.length is not None


def length_of(number: int, header: Header) -> Length:
    """Return the length field of a header."""
    protocol = header.protocol
    return Length(number, header.offset + protocol.length, header.offset + protocol.length_base)


def checksum_of(number: int, headers: list[Header]) -> Checksum | None:
    """Return the checksum of a header, if it has one."""
    header = headers[number]
    if header.name == "bytes" or header.protocol.checksum is None or header.without_checksum:
        return None
    offset = header.offset + header.protocol.checksum
    if header.name in NETWORK:
        return Checksum(number, offset, header.offset, header.offset + header.bytes)
    below = headers[number - 1] if number else None
    if below is None or below.name not in NETWORK:
        return None  # without IP, RFC 9293 and RFC 768 define no pseudo-header
    source = below.protocol.fields["src"]
    pseudo_bytes = 2 * source.bits // 8
    return Checksum(
        number, offset, header.offset, 0, below.offset + source.bit // 8, pseudo_bytes,
        TRANSPORT[header.name], header.name == "udp",
    )  # fmt: skip
