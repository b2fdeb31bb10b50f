"""A monitor counts the packets that the generator wrote: the contract between the two programs."""

import json

import pytest
from acapella_testing.capture.commands import run_command
from acapella_testing.new_files import write_file

from acapella_capture.generate import command as generate
from acapella_capture.monitor import expected
from acapella_capture.monitor.command import rows_of
from acapella_capture.monitor.program import Settings

ETHERNET = 'ethernet: {src: "02:00:00:00:00:01", dst: "02:00:00:00:00:02"}'
IPV4, UDP = "ipv4: {src: 10.0.0.1, dst: 10.0.0.2}", "udp: {src: 1, dst: 2}"
LABELS = 'vlan: {id: 100}, mpls: {label: 17}, mpls: {label: 18}, ipv6: {src: "fd00::1", dst: "fd00::2"}'
MODEL = f"""
seed: 5
flows:
  - {{name: plain, packets: 300, headers: [{ETHERNET}, ipv4: {{src: 10.0.0.1, dst: {{increment: 10.1.0.1, count: 16}}}},
                                           udp: {{src: 5000, dst: {{random: 1024, count: 4096}}}}],
     gaps: {{poisson: {{mean_ns: 10000}}}}, sizes: {{weighted: {{60: 7, 594: 4, 1514: 1}}}}, payload: prbs31}}
  - {{name: labels, headers: [{ETHERNET}, {LABELS}, tcp: {{src: 40000, dst: 80}}], packets: 200,
     gaps: {{constant: {{gap_ns: 20000}}}}, sizes: {{uniform: [110, 200]}}, payload: counter}}
  - {{name: shifted, headers: [{ETHERNET}, {IPV4}, ipv4: {{src: 10.2.0.1, dst: 10.2.0.2}}, {UDP}], packets: 100,
     gaps: {{packets_per_s: 30000}}, sizes: 300, payload: aa55, stamp: 100}}
  - {{name: unstamped, headers: [{ETHERNET}, {IPV4}, {UDP}], packets: 50,
     gaps: {{packets_per_s: 30000}}, sizes: 100, stamp: false}}
"""


@pytest.mark.soak
@pytest.mark.usefixtures("monitor_on_path", "generator")
def test_written_packets_have_no_latency_and_no_errors(tmp_path):
    out, generated = tmp_path / "out.pcap", tmp_path / "out.pcap.generated.json"
    assert run_command(generate, write_file(tmp_path / "model.yaml", MODEL), "-o", out) == 0
    document = json.loads(generated.read_text())
    rows = rows_of(Settings(files=(out,), wanted=expected.read(generated)), correct=False)
    (port,) = rows["monitor_ports"]
    assert (port["received"], port["bytes"]) == (document["packets"], document["bytes"])
    assert (port["foreign"], port["invalid"], port["lost"], port["reordered"]) == (50, 0, 0, 0)
    assert sum(value for name, value in port.items() if name.startswith("malformed_")) == 0
    for row, flow in zip(rows["monitor_flows"], document["flows"], strict=True):
        stamped = flow["stamp_offset"] is not None
        assert (row["name"], row["lost"]) == (flow["name"], 0 if stamped else None)
        if stamped:
            assert (row["unique"], row["bytes"], row["bit_errors"]) == (flow["packets"], flow["bytes"], 0)
            assert (row["latency_min_ns"], row["latency_max_ns"], row["jitter_ns"]) == (0, 0, 0)
            assert (row["first_ns"], row["last_ns"]) == (flow["first_ns"], flow["last_ns"])
            assert row["bits_checked"] == 8 * (flow["bytes"] - flow["pattern_offset"] * flow["packets"])
