"""preprocess.spec in the loader, compared with the model: the same frames give the same bytes, counts and registers."""

import random
import struct
from collections.abc import Iterable, Iterator

import pytest
from acapella_p4_model.generated_connections import ACK, TCP, ethernet, ipv4, tcp
from acapella_p4_model.generated_frames import IPV4, IPV6, MACS, generated_frames, ones_complement
from acapella_p4_model.parsing import FIRST_FRAGMENT, ICMPV6, NOT_FRAGMENTED, Parsed, parse
from acapella_p4_model.preprocess import EDIT_IPV4, EDIT_IPV6, EDIT_MACS, SENT, Preprocess, Rule, Table, updated
from acapella_p4_model.running import Frame, Result, run

FRAMES = 1000
REASONS = {"": SENT, "filtered": 1, "not-nth": 2, "flow-sampled": 3, "packet-sampled": 4}
# The filter's key in the order of its fields.
FILTER_KEY = ("src_high", "src_low", "dst_high", "dst_low", "src_port", "dst_port", "ip_version", "ip_proto")
FILTER_KEY += ("vlan_count", "vlans")
# Other fields that random rules match: the share of rules, and the names, values and masks to choose from.
OTHER_FIELDS = (
    (0.5, ("ip_proto",), (1, 6, 17, 58), (0xFF,)),
    (0.3, ("src_port", "dst_port"), (0, 443, 5201), (0xFFFF, 0xFF00)),
    (0.2, ("vlan_count",), range(4), (0xFF,)),
    (0.1, ("vlans",), range(2), (1,)),
)
HALF = 1 << 31
ALL_64 = (1 << 64) - 1


def control_of(model: Preprocess) -> str:
    """Return the control file that gives the program the model's settings."""
    registers = {"sample_flows_below": model.flows_below, "sample_packets_below": model.packets_below,
                 "sample_every": model.every, "cut_snap": model.snap, "cut_headers_only": model.headers_only,
                 "edit_which": model.edit}  # fmt: skip
    lines = [f"register {name} 0 {value}" for name, value in registers.items()]
    lines += _rules("filter_flows", "filter", model.filter, FILTER_KEY)
    for kind, widths in {"macs": (48,), "ipv4": (32,), "ipv6": (64, 64)}.items():
        lines += _address_rules(f"edit_{kind}", getattr(model, kind), widths)
    return "\n".join(lines) + "\n"


def _rules(name: str, prefix: str, table: Table, key: Iterable[str]) -> Iterator[str]:
    """Yield the statements for a table."""
    action, arguments = table.default
    yield " ".join((f"table {name} default action {prefix}_{action}", *map(str, arguments)))
    for rule in table.rules:
        fields = " ".join("{:#x}/{:#x}".format(*rule.match.get(field, (0, 0))) for field in key)
        call = " ".join((f"{prefix}_{rule.action}", *map(str, rule.arguments)))
        yield f"table {name} add match {fields} priority {rule.priority} action {call}"


def _parts(value: int, widths: tuple[int, ...]) -> list[int]:
    """Return the parts of an address, which have these widths."""
    return [value >> sum(widths[n + 1 :]) & (1 << width) - 1 for n, width in enumerate(widths)]


def _address_rules(prefix: str, table: Table, widths: tuple[int, ...]) -> Iterator[str]:
    """Yield the statements for a table of addresses, whose values are divided into fields of these widths."""
    names = [f"part_{n}" for n in range(len(widths))]

    def divided(arguments: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(part for argument in arguments for part in _parts(argument, widths))

    rules = []
    for rule in table.rules:
        parts = zip(*(_parts(value, widths) for value in rule.match["address"]), strict=True)
        rules.append(Rule(dict(zip(names, parts, strict=True)), rule.action, divided(rule.arguments), rule.priority))
    action, arguments = table.default
    return _rules(f"{prefix}_addresses", prefix, Table((action, divided(arguments)), rules), names)


def compare(model: Preprocess, frames: list[Frame], directory) -> Result:
    """Run the program and the model; every outcome and every compared register must be equal."""
    ran = run("preprocess", frames, control_of(model), directory)
    for number, (frame, result) in enumerate(zip(frames, ran.outcomes, strict=True)):
        verdict = model.frame(frame.raw, frame.wire, frame.port)
        raw = verdict.raw if verdict.reason == SENT else None
        actual = (REASONS[result.reason], result.sequence, result.hash, result.raw)
        assert actual == (verdict.reason, verdict.sequence, verdict.hash, raw), (
            f"frame {number}: {frame.raw.hex()} wire {frame.wire}: {parse(frame.raw, frame.wire)}"
        )
        assert (result.port, result.wire_length) == (frame.port, max(frame.wire, result.length))
        assert result.timestamp_ns == 10**18 + 1000 * (number + 1)  # as `run` stamps them
    assert ran.registers["stamp_parse_ends"] == [model.parse_ends[end] for end in range(8)]
    assert ran.registers["stamp_sequence"] == [model.sequence[port] for port in range(256)]
    assert ran.registers["sample_passed"] == [model.passed[port] for port in range(256)]
    return ran


def some_filter(seed: int) -> Table:
    """Return rules of each kind that match some of the generated frames."""
    rnd = random.Random(seed)
    table = Table((rnd.choice(("accept", "reject")), ()))
    for priority in range(24):
        match = {}
        if rnd.random() < 0.5:
            version, side = rnd.choice((4, 6)), rnd.choice(("src", "dst"))
            address = int.from_bytes(rnd.choice(IPV4 if version == 4 else IPV6))
            match |= {"ip_version": (version, 0xFF), f"{side}_high": (address >> 64, ALL_64)}
            match[f"{side}_low"] = (address & ALL_64, rnd.choice((0xFF, 0xFFFFFFFF, ALL_64)))
        for share, name, values, masks in OTHER_FIELDS:
            if rnd.random() < share:
                match[rnd.choice(name)] = (rnd.choice(values), rnd.choice(masks))
        match = {name: (value & mask, mask) for name, (value, mask) in match.items()}
        # DPDK replaces an existing rule with the same match, even if its priority differs.
        if match and all(rule.match != match for rule in table.rules):
            action = rnd.choice(("accept", "reject", "accept_cut"))
            arguments = (rnd.randrange(10, 120),) if action == "accept_cut" else ()
            table.rules.append(Rule(match, action, arguments, priority))
    return table


def some_addresses(seed: int, pool: list[bytes], default: str) -> Table:
    """Return rules for half of a pool's addresses, and one for a block of addresses."""
    rnd, bits, table = random.Random(seed), 8 * len(pool[0]), Table((default, ()))
    ones, low = (1 << bits) - 1, (1 << bits // 2) - 1
    for priority, address in enumerate(pool[::2]):
        masks_and_values = (
            (rnd.getrandbits(bits), rnd.getrandbits(bits)),
            (ones ^ low, rnd.getrandbits(bits // 2) | 1),  # the lower half alone
            (low, (rnd.getrandbits(bits // 2) | 1) << bits // 2),  # the upper half alone
        )
        action = rnd.choice(("keep", "blank", "rewrite", "rewrite"))
        arguments = rnd.choice(masks_and_values) if action == "rewrite" else ()
        table.rules.append(Rule({"address": (int.from_bytes(address), ones)}, action, arguments, priority))
    block = ones ^ (1 << bits // 4) - 1
    match = {"address": (int.from_bytes(pool[1]) & block, block)}
    table.rules.append(Rule(match, "rewrite", (0xFFFF, 7 << bits - 8), 99))
    return table


def edits(seed: int, default: str = "keep") -> dict:
    """Return settings that rewrite all kinds of addresses."""
    pools = {"macs": MACS, "ipv4": IPV4, "ipv6": IPV6}
    tables = {name: some_addresses(seed + n, pool, default) for n, (name, pool) in enumerate(pools.items())}
    return {"edit": EDIT_MACS | EDIT_IPV4 | EDIT_IPV6, **tables}


def test_frames_pass_unchanged_by_default(tmp_path):
    frames = generated_frames(1, FRAMES, ports=3)
    ran = compare(Preprocess(), frames, tmp_path)
    assert [result.raw for result in ran.outcomes] == [frame.raw for frame in frames]
    assert all(ran.registers["stamp_parse_ends"][:6]), "every way in which the parser ends occurs"


SEVEN_EIGHTHS = 7 * HALF // 4


@pytest.mark.parametrize(
    ("settings", "seed", "ports", "reasons"),
    [
        *(
            ({"filter": some_filter(seed), "every": 3, "snap": 90}, seed, 2, {"filtered", "not-nth"})
            for seed in (11, 12)
        ),
        (
            {"flows_below": 3 * HALF // 2, "packets_below": HALF, "headers_only": 1},
            *(21, 2, {"flow-sampled", "packet-sampled"}),
        ),
        *((edits(seed, default), seed, 1, set()) for seed, default in ((31, "keep"), (32, "blank"))),
        (
            {
                "filter": some_filter(41),
                "every": 2,
                "flows_below": SEVEN_EIGHTHS,
                "packets_below": SEVEN_EIGHTHS,
                "snap": 150,
                **edits(42),
            },
            *(43, 3, {"filtered", "not-nth", "flow-sampled", "packet-sampled"}),
        ),
    ],
    ids=["filter", "another filter", "sampling", "addresses", "blank addresses", "all features"],
)
def test_settings_match_the_model(tmp_path, settings, seed, ports, reasons):
    ran = compare(Preprocess(**settings), generated_frames(seed, FRAMES, ports=ports), tmp_path)
    assert {result.reason for result in ran.outcomes} == {"", *reasons}


def test_each_kind_of_address_is_edited_separately(tmp_path):
    for which in (EDIT_MACS, EDIT_IPV4, EDIT_IPV6):
        compare(Preprocess(**{**edits(51, "blank"), "edit": which}), generated_frames(51 + which, 400), tmp_path)


def test_correct_checksums_remain_correct_and_wrong_ones_wrong(tmp_path):
    """Checksums are computed over the complete packet here, independently of the model."""
    frames = [frame for frame in generated_frames(61, FRAMES) if frame.wire == len(frame.raw)]
    outcomes = run("preprocess", frames, control_of(Preprocess(**edits(62, "blank"))), tmp_path).outcomes
    parsed = [parse(frame.raw) for frame in frames]
    before = [checksums_hold(frame.raw, result) for frame, result in zip(frames, parsed, strict=True)]
    assert [checksums_hold(outcome.raw, result) for outcome, result in zip(outcomes, parsed, strict=True)] == before
    assert sum(map(len, before)) > FRAMES // 3


def checksums_hold(raw: bytes, parsed: Parsed) -> list[bool]:
    """Return whether the checksum is correct in each IPv4 header, and in the transport header of a complete packet."""
    sizes = {ip.at: 4 * (raw[ip.at] & 15) for ip in parsed.ips if ip.version == 4}
    headers = [raw[at : at + size] for at, size in sizes.items() if size and len(raw) >= at + size]
    transport = parsed.tcp or parsed.udp or (parsed.icmp if parsed.flow.ip_proto == ICMPV6 else None)
    complete = parsed.ips and parsed.ips[-1].at + parsed.ip_length <= len(raw)
    # A routing header's last address is not known here. ICMPv6 has a checksum only over IPv6 (RFC 4443 section 2.3).
    if transport and complete and parsed.fragment == NOT_FRAGMENTED and not parsed.routed:
        ip = parsed.ips[-1]
        if not (parsed.udp and parsed.udp.checksum == 0) and not (parsed.icmp and ip.version == 4):
            ends = raw[ip.at + 12 : ip.at + 20] if ip.version == 4 else raw[ip.at + 8 : ip.at + 40]
            packet = raw[transport.at : ip.at + parsed.ip_length]
            headers.append(ends + struct.pack("!II", len(packet), parsed.flow.ip_proto) + packet)
    return [ones_complement(header) == 0xFFFF for header in headers]


def test_incremental_checksum_equals_recomputed_checksum():
    rnd = random.Random(5)
    for _ in range(2000):
        words = [rnd.choice((0, 0xFFFF, rnd.randrange(65536))) for _ in range(9)]
        after = [*words[:7], rnd.randrange(65536), rnd.choice((0, 0xFFFF))]
        result = updated(ones_complement(struct.pack("!9H", *words)) ^ 0xFFFF, list(zip(words, after, strict=True)))
        recomputed = ones_complement(struct.pack("!9H", *after)) ^ 0xFFFF
        assert result == recomputed or {result, recomputed} == {0, 0xFFFF}  # both zeros of ones' complement


def test_directions_and_fragments_of_a_flow_are_sampled_together(tmp_path):
    frames = []
    for last in range(200):
        client, server, ports = 0x0A010000 + last, 0x0A020009 + (last << 8), (40000 + last, 443)
        frames += [segment(client, server, ports), segment(server, client, ports[::-1])]
        frames += [segment(client, server, fragment=offset) for offset in (0x2000, 100)]
    outcomes = run("preprocess", frames, f"register sample_flows_below 0 {HALF}\n", tmp_path).outcomes
    forward, reverse, first, later = ([outcome.outcome == "sent" for outcome in outcomes[at::4]] for at in range(4))
    assert forward == reverse
    assert first == later
    assert 70 < sum(forward) < 130  # 200 flows sampled with probability 1/2: within 4.2 standard deviations


@pytest.mark.parametrize("share", [1 / 16, 1 / 2])
def test_packets_are_sampled_at_the_requested_share(tmp_path, share):
    frames = [segment(0x0A000001, 0x0A000002, (5201, 40000), 1448 * number) for number in range(4000)]
    control = f"register sample_packets_below 0 {int(share * 2**32)}\n"
    ran = run("preprocess", frames, control, tmp_path)
    assert abs(ran.statistics["out"] - 4000 * share) < 4 * (4000 * share * (1 - share)) ** 0.5
    # the same packets at a different place: tagged, one hop later
    other = run("preprocess", [tagged(frame) for frame in frames], control, tmp_path)
    assert [result.outcome for result in ran.outcomes] == [result.outcome for result in other.outcomes]


def segment(src: int, dst: int, ports: tuple[int, int] = (7, 9), seq: int = 0, fragment: int = 0x4000) -> Frame:
    """Return an Ethernet frame with an empty TCP segment, or with a fragment; its checksums are zero."""
    packet = ipv4(TCP, src, dst, tcp(ports, (seq, 1), ACK, 500))
    return Frame(ethernet(packet[:6] + fragment.to_bytes(2) + packet[8:]))


def tagged(frame: Frame) -> Frame:
    """Return the frame with an additional VLAN tag and MPLS label, a smaller TTL, and different MAC addresses."""
    tags, ttl = b"\x81\x00\x00\x64\x88\x47\x00\x01\x01\x40", bytes([frame.raw[22] - 1])
    return Frame(b"\x02" * 12 + tags + frame.raw[14:22] + ttl + frame.raw[23:])


def test_first_fragment_keeps_its_ports(tmp_path):
    parsed = parse(segment(0x0A000001, 0x0A000002, fragment=0x2000).raw)
    assert (parsed.fragment, parsed.flow.src_port, parsed.flow.dst_port) == (FIRST_FRAGMENT, 7, 9)
