"""Tests that engine native and tshark dissect the same VXLAN-GPE payloads as inner IP packets."""

import random
import shutil

import pytest
from acapella_testing.oracles import naive_tunnels
from acapella_testing.processes import run
from acapella_testing.tunnel_digests import digested, whole

OUTER = ("192.0.2.1", "192.0.2.2")
FIELDS = ("frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst")
VERSIONS = {"ip": "IPv4", "ipv6": "IPv6"}


def near_valid(rng, payload):
    """Return the payload with plausible header values of VXLAN-GPE and IP, except NSH (4), which the core does not
    dissect.
    """
    near = bytearray(payload)
    near[3] = rng.choice((0, 1, 2, 3, 5, 6, 255))  # next protocol
    near[8] = rng.choice((0x45, 0x46, 0x44, 0x60, 0x75, near[8]))
    if near[3] == 3 and len(near) > 22:
        near[20:22] = rng.choice((b"\x08\x00", b"\x86\xdd", bytes(near[20:22])))
        near[22] = rng.choice((0x45, 0x60, near[22]))
    return bytes(near)


def random_payloads(ports):
    """Return 10,000 datagrams with random payload, then 10,000 with a payload that resembles VXLAN-GPE."""
    rng = random.Random(4790)
    payloads = [rng.randbytes(rng.randrange(20, 200)) for _ in range(20_000)]
    payloads[10_000:] = [near_valid(rng, payload) for payload in payloads[10_000:]]
    return [naive_tunnels.ethernet(0x0800, naive_tunnels.outer(17, naive_tunnels.udp(*ports, payload)))
            for payload in payloads]  # fmt: skip


def read_by_tshark(capture):
    """Yield the IP headers of every frame, and the set of (source, destination) pairs of the inner ones."""
    fields = [part for name in FIELDS for part in ("-e", name)]
    for line in run("tshark", "-n", "-r", capture, "-T", "fields", *fields, check=True).stdout.splitlines():
        protocols, *ends = line.split("\t")
        pairs = [pair for at in (0, 2) for pair in zip(ends[at].split(","), ends[at + 1].split(","), strict=False)]
        headers = [VERSIONS[token] for token in protocols.split(":") if token in VERSIONS]
        yield headers, {pair for pair in pairs if all(pair) and pair != OUTER}


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("ports", [(443, 4790), (4790, 443)], ids=str)
def test_core_and_tshark_recognize_ip_in_the_same_random_payloads(tmp_path, ports):
    frames, has_inner = random_payloads(ports), []
    rows, flows = digested(tmp_path, whole(frames))
    for row, data, (headers, inside) in zip(rows, frames, read_by_tshark(tmp_path / "t.pcap"), strict=True):
        assert [label for label in row["stack"].split("/") if label in VERSIONS.values()] == headers, (row, data.hex())
        has_inner.append(bool(inside))
        if row["issue"] != "truncated_ipv4":  # tshark reports no address for an IPv4 header with truncated options
            flow = flows[row["flow"]]
            assert (flow["src"], flow["dst"]) in (inside or {OUTER}), (row, data.hex())
    assert 0 < sum(has_inner[:10_000]) < 20  # expected: 7, with next protocol 1 or 2 and version 4 or 6
    assert sum(has_inner[10_000:]) > 1000
