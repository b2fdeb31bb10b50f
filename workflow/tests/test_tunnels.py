"""Flows of tenants with the same addresses: identifiers of tunnels against the plain reading of naive_tunnels."""

import csv
import json
import random
import shutil
import subprocess

import duckdb
import naive_tunnels
import plain_flows
import pyarrow.parquet as pq
import pytest
from naive_tunnels import CARRIES_IP_ALONE, FIRST, NETWORK, WRAP, frame

from acapella import tshark
from acapella.acap_files import KEY, check_format, metadata_of
from acapella.analyze import make_partials
from acapella.campaign import Campaign
from acapella.cli import main
from acapella.digest import Options, digest
from acapella.flowreports import exact
from acapella_core import schemas
from acapella_core.errors import UserError

TYPES = [name for name in WRAP if name != "vlan"]
TENANTS = 1000
LINK = ("vlan", "pppoe_session", "pbb_isid")  # headers without IP before them
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def digested(tmp_path, frames, engine="native"):
    """Digest frames of (captured bytes, wire length); return the rows of both tables."""
    capture = tmp_path / "t.pcap"
    with capture.open("wb") as out:
        out.write(plain_flows.PCAP_HEADER)
        for captured, wire_len in frames:
            head = (1, 0, len(captured), wire_len)
            out.write(b"".join(value.to_bytes(4, "little") for value in head) + captured)
    acap, flows = tmp_path / f"{engine}.parquet", tmp_path / f"{engine}.flows.parquet"
    digest([str(capture)], str(acap), str(flows), Options(engine, site="S"))
    return pq.read_table(acap).to_pylist(), pq.read_table(flows).to_pylist()


def key_of(row):
    """The key of a row of the flow table, as naive_tunnels has it."""
    tunnels = tuple((tunnel["type"], tunnel["id"], tunnel["position"]) for tunnel in row["tunnels"])
    ports = None if row["src_port"] is None else (row["src_port"], row["dst_port"])
    return tuple(row["vlan"]), tunnels, row["src"], row["dst"], row["ip_proto"], ports


def check(tmp_path, frames, engine="native"):
    """Compare the flow of every frame and every flow's peer; return the rows of both tables."""
    frame_rows, flow_rows = digested(tmp_path, frames, engine)
    expected = [naive_tunnels.read(captured) for captured, _ in frames]
    keys = list(dict.fromkeys(found.key for found in expected if found.key is not None))
    assert [key_of(row) for row in flow_rows] == keys
    assert len({row["flow_id"] for row in flow_rows}) == len(keys)
    assert [row["peer_flow"] for row in flow_rows] == naive_tunnels.peers(keys)
    for row, found in zip(frame_rows, expected, strict=True):
        assert row["flow"] == (None if found.key is None else keys.index(found.key)), (row, found)
        assert (row["issue"] is not None) == found.cut, (row, found)
    return frame_rows, flow_rows


def whole(frames):
    """Frames that were captured whole."""
    return [(data, len(data)) for data in frames]


def tenants(before, name, count, behind=()):
    """Both directions of ``count`` tenants, each with a tunnel of its own between the tunnels before and behind it."""
    ids = range(FIRST.get(name, 1), FIRST.get(name, 1) + count)
    return [frame([*before, (name, i), *behind], back=back) for back in (False, True) for i in ids]


@pytest.mark.parametrize("name", TYPES)
def test_every_tenant_has_flows_of_its_own(tmp_path, name):
    _, flows = check(tmp_path, whole(tenants([], name, TENANTS)))
    assert len(flows) == 2 * TENANTS
    paired = [row["peer_flow"] is not None for row in flows]
    assert all(paired) if name in NETWORK else not any(paired)


@pytest.mark.parametrize("name", [name for name in TYPES if name not in NETWORK])
def test_identifiers_that_differ_per_direction_do_not_part_peers(tmp_path, name):
    there, back = frame([(name, 1)]), frame([(name, 2)], back=True)
    _, flows = check(tmp_path, whole([there, back]))
    assert [row["peer_flow"] for row in flows] == [1, 0]


def test_positions_that_differ_per_direction_do_not_part_peers(tmp_path):
    there = [frame([("vxlan_vni", vni)]) for vni in (5, 6)]
    back = [frame([("gre_key", 1), ("vxlan_vni", vni)], back=True) for vni in (5, 6)]
    _, flows = check(tmp_path, whole([*there, *back]))
    assert [row["peer_flow"] for row in flows] == [2, 3, 0, 1]


@pytest.mark.parametrize(
    ("before", "name", "behind"),
    [
        ([("gre_key", 7)], "vxlan_vni", []),
        ([], "gre_key", [("vxlan_vni", 7)]),
        ([("vxlan_vni", 7)], "gtp_teid", []),
        ([], "vxlan_vni", [("gtp_teid", 7)]),
        ([("pbb_isid", 7)], "pppoe_session", []),
        ([("vxlan_gpe_vni", 7)], "vxlan_vni", [("geneve_vni", 9)]),
        ([("vlan", 7)], "vxlan_vni", []),
        ([], "vxlan_vni", [("vlan", 7)]),
    ],
    ids=str,
)
def test_every_tenant_in_nested_tunnels_has_flows_of_its_own(tmp_path, before, name, behind):
    _, flows = check(tmp_path, whole(tenants(before, name, 200, behind)))
    assert len(flows) == 400


def test_vlan_in_vxlan_and_vxlan_in_vlan_are_separate_flows(tmp_path):
    nested = [[("vlan", 7), ("vxlan_vni", 5)], [("vxlan_vni", 5), ("vlan", 7)]]
    frames, flows = check(tmp_path, whole([frame(one) for one in nested]))
    assert [row["tunnels"][0]["position"] for row in flows] == [5, 4]
    for row in frames:
        assert row["stack"].split("/")[flows[row["flow"]]["tunnels"][0]["position"] - 1] == "VXLAN"


def test_flow_ids_of_an_nvgre_tenant_are_one_flow_and_small_keys_are_not(tmp_path):
    def gre(key):
        return naive_tunnels.ethernet(*naive_tunnels.over_gre(0x2000, 0x6558)(
            naive_tunnels.word(key) + naive_tunnels.ethernet(0x0800, naive_tunnels.inner())
        ))  # fmt: skip

    _, flows = check(tmp_path, whole([gre(0x123456 << 8 | 1), gre(0x123456 << 8 | 2), gre(5), gre(6)]))
    assert [[(t["type"], t["id"]) for t in row["tunnels"]] for row in flows] == [
        [("nvgre_vsid", 0x123456)],
        [("gre_key", 5)],
        [("gre_key", 6)],
    ]


def cuts(data):
    """A frame cut at every length from the end of the first header on."""
    return [(data[:length], len(data)) for length in range(14, len(data) + 1)]


@pytest.mark.parametrize("name", TYPES)
def test_a_cut_identifier_is_an_issue_and_never_zero(tmp_path, name):
    frames, flows = check(tmp_path, cuts(frame([(name, 0x3FF if name == "erspan_session" else 0x4321)])))
    assert all(tunnel["id"] != 0 for row in flows for tunnel in row["tunnels"])
    assert {row["issue"] for row in frames} - {None}


def random_nesting(chance):
    """Up to five tunnels, each of which can carry the next."""
    names = []
    for _ in range(chance.randrange(1, 6)):
        ip_alone = bool(names) and names[-1] in (*CARRIES_IP_ALONE, "gre_key")
        names.append(chance.choice([name for name in WRAP if not ip_alone or name not in LINK]))
    return [(name, chance.choice((1, 2, 1000)) + FIRST.get(name, 0)) for name in names]


@pytest.mark.parametrize("seed", range(6))
def test_random_nesting(tmp_path, seed):
    chance = random.Random(seed)
    frames = []
    for _ in range(400):
        data = frame(random_nesting(chance), back=chance.random() < 0.5)
        frames.append((data[: chance.randrange(14, len(data) + 1)] if chance.random() < 0.3 else data, len(data)))
    check(tmp_path, frames)


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_tunnels_however_frames_are_cut(tmp_path, engine):
    chance = random.Random(1)
    frames = [one for name in TYPES for one in cuts(frame([(name, 0x3FF if name == "erspan_session" else 0x4321)]))]
    frames += whole([frame(random_nesting(chance)) for _ in range(300)])
    frames += whole([data for name in TYPES for data in tenants([], name, 5)])
    native, other = (digested(tmp_path, frames, each) for each in ("native", engine))
    for number, (mine, theirs) in enumerate(zip(native[0], other[0], strict=True)):
        keys = [None if row["flow"] is None else key_of(flows[row["flow"]])
                for row, flows in ((mine, native[1]), (theirs, other[1]))]  # fmt: skip
        assert keys[0] == keys[1], (number, mine, theirs)


@needs_tshark
def test_verify_finds_no_difference_in_tunnels_on_cut_frames(tmp_path, capsys):
    frames = [one for name in TYPES for one in cuts(frame([(name, 0x3FF if name == "erspan_session" else 0x4321)]))]
    digested(tmp_path, frames)
    assert main(["verify", "--engine", "native", str(tmp_path / "t.pcap")]) == 0
    printed = capsys.readouterr().out
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("tunnels ")]
    assert int(line[1].replace(",", "")) > len(frames) / 2
    assert line[2:4] == ["0", "0"]


@needs_tshark
def test_bits_of_every_type_and_its_field_are_those_of_tshark():
    with (schemas.root() / "tunnels.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert [row["type"] for row in rows] == TYPES
    assert {row["type"] for row in rows if row["directions"] == "same"} == set(NETWORK)
    fields = {name for row in rows for name in row["fields"].split(", ")}
    command = [tshark.find().path, "-G", "fields"]
    known = {line.split("\t")[2] for line in run_text(command).splitlines() if line.startswith("F\t")}
    assert fields <= known


def run_text(command):
    """The standard output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True, env=tshark.environment()).stdout


@pytest.fixture
def old(tmp_path):
    """A campaign whose acap and flow table were written before format version 2."""
    campaign = Campaign(tmp_path / "old")
    frames = whole([frame([("vxlan_vni", 5)])])
    digested(tmp_path, frames)
    for made, target in (("native.parquet", campaign.acap("a")), ("native.flows.parquet", campaign.flows("a"))):
        table = pq.read_table(tmp_path / made)
        metadata = metadata_of(tmp_path / made)
        assert metadata.pop("acap_format") == 2
        target.parent.mkdir(parents=True)
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(metadata)}), target)
    campaign.manifest("a").parent.mkdir()
    campaign.manifest("a").write_text("{}", encoding="utf-8")
    return campaign


@pytest.mark.parametrize("reader", ["show", "index", "analyze", "flowreports", "comparators"])
def test_files_of_an_older_format_are_refused_in_one_line(old, reader, capfd):
    acap, flows = old.acap("a"), old.flows("a")
    if reader == "show":
        assert main(["show", str(acap), "--columns", "src"]) == 2
        error = capfd.readouterr().err
    elif reader == "index":
        assert main(["index", str(old.folder)]) == 2
        error = capfd.readouterr().err
    elif reader == "comparators":
        assert main(["comparators", str(acap), "--flows", str(flows)]) == 2
        error = capfd.readouterr().err
    else:
        with pytest.raises(UserError) as caught:
            if reader == "analyze":
                make_partials(old, "a", old.folder / "partial")
            else:
                exact.make(None, acap, flows, window_ns=1)
        error = f"{caught.value}\n"
    assert error.count("\n") == 1
    assert "format version 1" in error and "acapella digest" in error


def test_a_catalog_of_an_older_format_is_refused_in_one_line(tmp_path, capfd):
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as con:
        con.execute("create table flows (sample varchar, src varchar)")
    assert main(["sql", str(tmp_path), "select src from flows"]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "tunnels" in error and "acapella digest" in error


def test_files_of_this_format_are_read(tmp_path):
    digested(tmp_path, whole([frame([("vxlan_vni", 5)])]))
    check_format(tmp_path / "native.parquet")
    check_format(tmp_path / "native.flows.parquet")
