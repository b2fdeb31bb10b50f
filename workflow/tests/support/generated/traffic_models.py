"""Traffic models for tests: a flow for each kind of header, field, gap, size and error."""

import random

KNOWN_VENDOR = (
    '- ethernet: {src: "00:1b:21:00:00:11", dst: "00:1b:21:00:00:22"}'  # a vendor, which decoders check in pseudowires
)
LOCAL = '- ethernet: {src: "02:00:00:00:00:11", dst: "02:00:00:00:00:22"}'
IPV4 = "- ipv4: {src: 10.1.0.1, dst: {increment: 10.2.0.1, count: 5, step: 3}}"
INNER = "- ipv4: {src: 192.168.0.1, dst: {interleave: [192.168.1.1, 192.168.7.9]}, ttl: {random: 1, count: 200}}"
IPV6 = '- ipv6: {src: "2001:db8::1", dst: {random: "2001:db8:1::10", count: 8}, flow_label: {increment: 7}}'
UDP = "- udp: {src: {increment: 1000, count: 3}, dst: 53}"
TCP = "- tcp: {src: {random: 40000, count: 4}, dst: {interleave: [80, 443, 8080]}, sequence: {increment: 5, step: 999}}"

# Each template: its headers, and the start of tshark's frame.protocols.
TEMPLATES = {
    "udp4": ([LOCAL, IPV4, UDP], "eth:ethertype:ip:udp"),
    "tcp4": ([LOCAL, IPV4, TCP], "eth:ethertype:ip:tcp"),
    "udp6": ([LOCAL, IPV6, UDP], "eth:ethertype:ipv6:udp"),
    "tcp6": ([LOCAL, IPV6, TCP], "eth:ethertype:ipv6:tcp"),
    "vlan": (
        [LOCAL, "- vlan: {id: {increment: 10, count: 4}, pcp: 3}", IPV4, UDP],
        "eth:ethertype:vlan:ethertype:ip:udp",
    ),
    "qinq": (
        [LOCAL, "- svlan: {id: 7}", "- vlan: {id: {interleave: [1, 2, 3]}}", IPV6, TCP],
        "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ipv6:tcp",
    ),
    "mpls": (
        [LOCAL, "- mpls: {label: {random: 1000, count: 4}}", "- mpls: {label: 77, ttl: 3}", IPV4, UDP],
        "eth:ethertype:mpls:ip:udp",
    ),
    "pseudowire": (
        [LOCAL, "- mpls: {label: 99}", "- pseudowire: {sequence: {increment: 1}}", KNOWN_VENDOR,
         "- vlan: {id: 5}", IPV4, TCP],
        "eth:ethertype:mpls:pwethheuristic:pwethcw:eth:ethertype:vlan:ethertype:ip:tcp",
    ),
    "vxlan": (
        [LOCAL, "- ipv4: {src: 10.9.0.1, dst: 10.9.0.2}", "- udp: {src: {random: 49152, count: 16384}, dst: 4789}",
         "- vxlan: {vni: {increment: 500, count: 3}}", LOCAL, INNER, TCP],
        "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp",
    ),
    "vxlan_without_checksum": (
        [LOCAL, IPV4, "- udp: {src: 1, dst: 4789, checksum: 0}", "- vxlan: {vni: 77}", LOCAL, IPV6, UDP],
        "eth:ethertype:ip:udp:vxlan:eth:ethertype:ipv6:udp",
    ),
    "ipip": ([LOCAL, "- ipv4: {src: 10.9.0.1, dst: 10.9.0.2}", INNER, UDP], "eth:ethertype:ip:ip:udp"),
    "ip_in_ip6": ([LOCAL, IPV6, INNER, UDP], "eth:ethertype:ipv6:ip:udp"),
    "ip6_in_ip": ([LOCAL, INNER, IPV6, TCP], "eth:ethertype:ip:ipv6:tcp"),
    "udp_bytes": ([LOCAL, IPV4, UDP, "- bytes: '01020304050607'"], "eth:ethertype:ip:udp"),
    "ip_only": ([LOCAL, IPV4], "eth:ethertype:ip"),
    "bytes": (["- bytes: '0200000000010200000000028100000a88b5abcdef'"], "eth:ethertype:vlan"),
}  # fmt: skip
GAPS = (
    "{constant: {gap_ns: 1000}}",
    "{packets_per_s: 3000007}",
    "{rate_bps: 99999989}",
    "{poisson: {mean_ns: 2345.6}}",
    "{pareto: {mean_ns: 5000, shape: 1.5}}",
    "{on_off: {gap_ns: 100, burst: {exponential: {mean_ns: 1000}}, pause: {pareto: {mean_ns: 9000, shape: 2.5}}}}",
)
SIZES = (
    "200",
    "{uniform: [180, 1514]}",
    "{weighted: {150: 7, 594: 4, 1518: 1}}",
    "{exponential: {least: 150, most: 1400, scale_bytes: 200}}",
)
PATTERNS = ("zeros", "ones", "aa55", "counter", "prbs31")
ERRORS = {
    "wrong_checksum": ([LOCAL, IPV4, UDP], "[{checksum: udp, every: 3}, {checksum: ipv4, every: 2}]"),
    "wrong_tcp_checksum": ([LOCAL, IPV6, TCP], "[{checksum: tcp}]"),
    "wrong_length": ([LOCAL, IPV4, UDP], "[{length: udp, delta: 5, every: 4}]"),
    "cut_in_ipv4": ([LOCAL, "- vlan: {id: 9}", IPV4, UDP], "[{truncate: 30, every: 2}]"),
    "cut_in_udp": ([LOCAL, IPV4, "- udp: {src: 7, dst: 9}"], "[{truncate: 40, every: 5}]"),
    "cut_in_tcp_ports": ([LOCAL, IPV4, TCP], "[{truncate: 36, every: 2}]"),
}


def flow(name: str, headers: list[str], number: int, packets: int, more: str = "") -> str:
    """Return a flow with one of the gaps, sizes and patterns."""
    lines = [f"- name: {name}", "  headers:", *(f"    {header}" for header in headers)]
    lines += [f"  packets: {packets}", f"  start_ns: {number * 12345}", f"  gaps: {GAPS[number % len(GAPS)]}"]
    lines += [f"  sizes: {SIZES[number % len(SIZES)]}", f"  payload: {PATTERNS[number % len(PATTERNS)]}"]
    return "\n".join(f"  {line}" for line in [*lines, *more.splitlines()])


def udp_flow(  # noqa: PLR0913 (its fields)
    name: str, packets: int, *, mac: str = "{}", src: str = "10.0.0.1", dst: str = "10.0.0.2", port: int = 6000,
    sizes: str = "100", mean_ns: int = 50_000,
) -> str:  # fmt: skip
    """Return a flow of UDP to a port, with gaps of a Poisson process and the pattern prbs31."""
    headers = f"[{{ethernet: {mac}}}, {{ipv4: {{src: {src}, dst: {dst}}}}}, {{udp: {{src: 5000, dst: {port}}}}}]"
    shape = f"sizes: {sizes}, payload: prbs31, gaps: {{poisson: {{mean_ns: {mean_ns}}}}}"
    return f"  - {{name: '{name}', headers: {headers}, packets: {packets}, {shape}}}"


def every_template(packets: int = 60) -> str:
    """Return a model with a flow for each template."""
    flows = [flow(name, headers, at, packets) for at, (name, (headers, _)) in enumerate(TEMPLATES.items())]
    return "\n".join(["seed: 11", "flows:", *flows, ""])


def every_error() -> str:
    """Return a model with a flow for each deliberate error."""
    flows = [
        flow(name, headers, at, 60, f"  malformed: {errors}")
        for at, (name, (headers, errors)) in enumerate(ERRORS.items())
    ]
    return "\n".join(["seed: 12", "port: {rate_bps: 100000000}", "flows:", *flows, ""])


def random_model(seed: int, flows: int = 12) -> str:
    """Return a model of random flows: templates, gaps, sizes, rate limits, durations and errors."""
    chance = random.Random(seed)
    lines = [f"seed: {chance.getrandbits(64)}"]
    lines += [f"port: {{rate_bps: {chance.randrange(10**7, 10**10)}}}"] if chance.random() < 0.5 else []
    lines.append("flows:")
    for number in range(flows):
        name, (headers, _) = chance.choice(list(TEMPLATES.items()))
        more = [f"  rate_bps: {chance.randrange(10**7, 10**10)}"] if chance.random() < 0.4 else []
        more += [f"  duration_ns: {chance.randrange(1, 10**6)}"] if chance.random() < 0.4 else []
        more += [f"  malformed: [{{truncate: {chance.randrange(1, 150)}, every: {chance.randrange(1, 5)}}}]"]
        more = more if chance.random() < 0.4 else more[:-1]
        at = chance.randrange(1000)
        lines.append(flow(f"{name}{number}", headers, at, chance.randrange(1, 400), "\n".join(more)))
    return "\n".join([*lines, ""])
