"""The digest of generated captures is the flow table that the model alone defines."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest
from acapella_testing.generated import traffic_models as models
from acapella_testing.new_files import write_file
from acapella_testing.soak import SOAK

from acapella.digest.command import Options, digest
from acapella_capture.generate import model, program
from acapella_capture.generate.compiled import Gaps
from acapella_core import schemas
from acapella_core.errors import UserError

COMPARED = (
    *("vlan", "mpls", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port", "first_ns", "last_ns", "frames"),
    *("wire_bytes", "wire_len_min", "wire_len_max", "iat_min_ns", "iat_max_ns"),
)


def digested(capture: Path) -> list[dict]:
    """Return the flow table of a capture, with the VNI of VXLAN as in the expected table."""
    acap, flows = capture.with_suffix(".acap.parquet"), capture.with_suffix(".digest.parquet")
    digest([str(capture)], str(acap), str(flows), Options("native", site="S"))
    rows = pq.read_table(flows).to_pylist()
    vni = [[tunnel["id"] for tunnel in row["tunnels"] if tunnel["type"] == "vxlan_vni"] for row in rows]
    return [{key: row[key] for key in COMPARED} | {"vni": ids} for row, ids in zip(rows, vni, strict=True)]


def in_order(rows: list[dict]) -> list[tuple]:
    """Return rows in an order that does not depend on that of the table."""
    return sorted(tuple(repr(row[key]) for key in sorted(row)) for row in rows)


@pytest.mark.parametrize("text", [models.every_template(), models.every_error()], ids=["templates", "errors"])
def test_digest_equals_the_flow_table_of_the_model(generate, text):
    generated = generate(text)
    expected = pq.read_table(generated.table).to_pylist()
    assert len(expected) > 50
    assert in_order(digested(generated.path)) == in_order(expected)


@pytest.mark.parametrize("seed", range(200 if SOAK else 2))
def test_digest_equals_the_flow_table_of_random_models(generate, seed):
    generated = generate(models.random_model(seed))
    assert in_order(digested(generated.path)) == in_order(pq.read_table(generated.table).to_pylist())


def test_output_depends_only_on_model_and_seed(generate):
    text = models.every_template(20)
    files = [generate(text, name, *options).path for name, *options in (["a"], ["b"], ["c", "--seed", "12"])]
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    assert sums[0] == sums[1] != sums[2]
    lists = [path.with_name(f"{path.name}.generated.json").read_bytes() for path in files]
    assert lists[0] == lists[1] != lists[2]


def test_list_of_flows_follows_its_schema_and_counts_every_packet(generate):
    generated = generate(models.every_error())
    schema = json.loads((schemas.root() / "generated.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(generated.document)
    flows = {flow["name"]: flow for flow in generated.document["flows"]}
    assert [flow["packets"] for flow in flows.values()] == [60] * len(models.ERRORS)
    assert generated.document["packets"] == 60 * len(models.ERRORS)
    assert generated.document["dropped"] == 0
    assert {name: flow["malformed"] for name, flow in flows.items()} == {
        "wrong_checksum": 40, "wrong_tcp_checksum": 60, "wrong_length": 15, "cut_in_ipv4": 30, "cut_in_udp": 12,
        "cut_in_tcp_ports": 30,
    }  # fmt: skip
    assert flows["cut_in_ipv4"]["shortest_bytes"] == 30 and flows["cut_in_ipv4"]["vlan"] == [9]


def test_overflowing_gap_is_an_error(generator, tmp_path):
    read = model.read(write_file(tmp_path / "model.yaml", models.every_template(5)), program.read_trace)
    flow = replace(read.flows[0], gaps=Gaps("list", values=(10, 2**62 + 2**61)))
    with pytest.raises(UserError, match="Value too large"):
        program.run(replace(read, flows=(flow,)), ["--output", str(tmp_path / "out.pcap"), "--start-ns", "0"])


def test_times_after_the_last_second_of_a_pcap_are_an_error(generate, tmp_path):
    text = models.every_template(5).replace("{constant: {gap_ns: 1000}}", "{constant: {gap_ns: 1000000000000000}}")
    with pytest.raises(UserError, match=r"out\.pcap: Value too large"):
        generate(text.replace("packets: 5", "packets: 5000", 1))
    assert not list(tmp_path.glob("out.*"))
