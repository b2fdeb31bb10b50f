"""Tests the catalog: its content, rejected input, and that any DuckDB client can open it."""

import argparse
import itertools
import json
import os
import random
import shutil
import struct
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing import processes
from acapella_testing.footer_reads import footer_reads, log_reads
from acapella_testing.frames.trial_captures import arp
from acapella_testing.frames.trial_frames import ethernet, ipv4, ipv6, udp
from acapella_testing.generated.files_campaign import failed, run
from acapella_testing.generated.tiny import add_sample, flow
from acapella_testing.new_files import change_json, new_directory, write_file
from acapella_testing.processes import with_umask
from acapella_testing.runs.in_process import call_before
from acapella_testing.runs.stages import add_capture, analyze_campaign
from acapella_testing.runs.stages import catalog_rows as query

from acapella.campaign import index, process
from acapella.campaign.layout import Campaign
from acapella.common import queries
from acapella.kappa import conformance
from acapella_core import files, schemas
from acapella_core.errors import UserError

WEST = ("WEST", "p1")
CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
PRINTED = {"printed": str(CONFORMANCE / "kappa_printed.csv"), "errata": str(CONFORMANCE / "kappa_errata.yaml")}


@pytest.fixture
def directory(tmp_path):
    """Return a campaign of two samples."""
    add_sample(tmp_path / "made", "a", WEST, (0, 20), [flow(1, 2), flow(1, 3, src="10.0.0.2", dst="10.0.0.1")])
    add_sample(tmp_path / "made", "b", ("EAST", "p1"), None, [])
    return tmp_path / "made"


@pytest.fixture
def indexed(directory):
    """Return the campaign with its catalog."""
    index.build(Campaign(directory))
    return directory


def client(directory, code, environment=None) -> str:
    """Run Python code in a different directory, with a campaign's catalog open as ``con``; return its output."""
    opening = f"import duckdb; con = duckdb.connect({str(directory / 'catalog.duckdb')!r}, read_only=True)\n"
    done = processes.run(sys.executable, "-c", opening + code, cwd="/", env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def content(directory, environment=None):
    """Return all tables and views of a catalog except the published ones as text."""
    names = f"[t for (t,) in con.execute('show tables').fetchall() if t not in {process.TABLES}]"
    return client(directory, f"print({{t: con.execute(f'from {{t}}').fetchall() for t in {names}}})", environment)


def test_any_client_opens_the_views_from_any_directory(tmp_path, directory):
    moved = directory.rename(tmp_path / "it's [one] of *")
    counts, missing = index.build(Campaign(moved))
    assert counts == {"samples": 2, "acaps": 2, "flows": 2, "stacks": 1}
    assert missing == []
    assert "Ethernet/IPv4/TCP" in content(moved)


def test_duckdb_1_0_0_opens_the_catalog(indexed, old_client):
    """This includes lists that are empty in a whole row group, as here. DuckDB 1.0.0 cannot read them from a table."""
    assert content(indexed, old_client) == content(indexed)


def test_index_writes_nothing_to_the_directory_of_tables(directory):
    """DuckDB creates views only over existing files, but a killed command must not leave empty tables."""
    tables = new_directory(directory / "tables")
    before = tables.stat().st_mtime_ns
    index.build(Campaign(directory))
    assert tables.stat().st_mtime_ns == before
    assert query(directory, "select count(*) from duckdb_views() where view_name = 'throughput'") == [(1,)]
    with pytest.raises(duckdb.IOException, match=r"throughput\.parquet"):
        query(directory, "from throughput")


def test_lists_in_the_catalog_match_the_files(directory):
    """Compares empty lists, nulls and values, however they are stored."""
    tagged = [flow(1, 2, vlan=[7, 8], mpls=[17]), flow(1, 3)]
    add_sample(directory, "c", WEST, (0, 20), tagged, notes=["first", "second"])
    add_sample(directory, "d", WEST, (0, 20), [flow(1, 2, vlan=[9])], notes=[])
    index.build(Campaign(directory))
    flows = [(p.stem, r) for p in sorted((directory / "flows").iterdir()) for r in pq.read_table(p).to_pylist()]
    columns = ("flow", "vlan", "mpls", "tunnels", "stacks")
    assert query(directory, f"select sample, {', '.join(columns)} from flows order by all") == [
        (sample, *(row[column] for column in columns)) for sample, row in flows
    ]
    notes = [("a", None), ("b", None), ("c", ["first", "second"]), ("d", [])]
    assert query(directory, "select sample, notes from samples order by 1") == notes
    assert [name for (name,) in query(directory, "show tables")] == sorted(
        {"acaps", "connections", "flows", "frames", "samples", "stacks", *process.TABLES}
    )


def tcp_frame(choice: random.Random) -> bytes:
    """Return a TCP segment in one of three VLANs, with or without an MPLS label."""
    tags = struct.pack("!HH", 0x8100, choice.randrange(100, 103))
    label = struct.pack("!I", choice.randrange(16, 20) << 12 | 0x140) if choice.random() < 0.5 else b""
    numbers = (1024 + choice.randrange(200), 443, choice.getrandbits(32), choice.getrandbits(32), 0x50)
    segment = struct.pack("!HHIIBBHHH", *numbers, choice.choice((0x10, 0x18, 0x02, 0x12, 0x11)), 1024, 0, 0)
    packet = ipv4(segment + bytes(choice.randrange(200)), proto=6, ident=choice.getrandbits(16))
    return ethernet(label + packet, 0x8847 if label else 0x0800, tags)


def udp_frame(choice: random.Random) -> bytes:
    """Return a UDP datagram without VLAN, TCP fields, IP identification or list elements."""
    return ethernet(ipv6(udp(0, size=choice.randrange(8, 200), ports=(5000 + choice.randrange(50), 53))))


def arp_frame(choice: random.Random) -> bytes:
    """Return an ARP request, which has no flow."""
    return arp(choice.getrandbits(64))


ROWS = 2500  # per row group of the digests; DuckDB reads 2,048 at once
KINDS_OF_FRAMES = {"tcp": tcp_frame, "udp": udp_frame, "arp": arp_frame}


def trace(frames: int, *makers) -> list[tuple[int, bytes]]:
    """Return timestamped frames, which ``makers`` create in turn."""
    choice, time = random.Random(11), 1_700_000_000 * 10**9
    numbered = zip(range(frames), itertools.cycle(makers), strict=False)
    return [(time + 10_000 * n + choice.randrange(9_000), make(choice)) for n, make in numbered]


@pytest.fixture(scope="module")
def digested(tmp_path_factory):
    """Return a campaign of acaps from `acapella digest`: one with two row groups, and samples with all-null columns.

    Some frames are truncated.
    """
    root = tmp_path_factory.mktemp("digested")
    samples = {"mixed": (ROWS + 1500, *KINDS_OF_FRAMES.values())}
    samples |= {name: (50, maker) for name, maker in KINDS_OF_FRAMES.items()} | {"empty": (0, arp_frame)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acapella.digest.native.BATCH_ROWS", ROWS)
        for name, (frames, *makers) in samples.items():
            add_capture(root / "made", name, trace(frames, *makers), place=WEST, snaplen=150)
    captures = [root / "made" / "raw" / f"{name}.pcap" for name in ("tcp", "udp")]
    run("digest", *captures, "-o", root / "merged.parquet", "--engine", "native")
    return analyze_campaign(root / "made")


READ_COLUMNS = """
import hashlib, json
relations = {name: name for (name,) in con.execute("show tables").fetchall()}
relations |= {file: f"read_parquet('{file}')" for file in FILES}
found = {"version": duckdb.__version__}
for name, relation in relations.items():
    for column, *_ in con.execute(f"describe select * from {relation}").fetchall():
        counts = con.execute(f'select "{column}", count(*) from {relation} group by all').fetchall()
        values = "".join(sorted(map(repr, counts)))
        found[f"{name}: {column}"] = [sum(rows for _, rows in counts), hashlib.sha256(values.encode()).hexdigest()]
print(json.dumps(found))
"""


def columns_read(directory: Path, files: list[Path], environment=None) -> dict:
    """Return rows and a checksum of each column of a catalog and of Parquet files, read from another directory."""
    return json.loads(client(directory, f"FILES = {[*map(str, files)]}\n{READ_COLUMNS}", environment))


@pytest.mark.soak
def test_duckdb_1_0_0_reads_every_column_of_digested_samples(digested, old_client):
    files = sorted([*digested.rglob("*.parquet"), *digested.parent.glob("*.parquet")])
    assert {path.parent.name for path in files} >= {"acap", "flows", "tables", "b0001", digested.parent.name}
    assert pq.read_metadata(digested / "acap" / "mixed.parquet").num_row_groups == 2
    old = columns_read(digested, files, old_client)
    assert old.pop("version") == "1.0.0"
    new = columns_read(digested, files)
    assert new.pop("version") == duckdb.__version__
    assert old == new
    for path in files[:5]:
        assert {old[f"{path}: {name}"][0] for name in pq.read_schema(path).names} == {pq.read_metadata(path).num_rows}
    assert old["frames: ip_id"][0] == ROWS + 1650


DUCKDB_TYPES = {"utf8": "VARCHAR", "json": "JSON", "bool": "BOOLEAN", "int64": "BIGINT"}
DUCKDB_TYPES |= {"uint64": "UBIGINT", "uint32": "UINTEGER", "uint16": "USMALLINT", "uint8": "UTINYINT"}
TUNNEL = (
    "struct<type: utf8, id: uint32, position: uint16>",
    'STRUCT("type" VARCHAR, id UINTEGER, "position" USMALLINT)',
)
DUCKDB_TYPES |= {f"list<{ours}>": f"{theirs}[]" for ours, theirs in (*DUCKDB_TYPES.items(), TUNNEL)}


@pytest.mark.parametrize("name", ["acaps", "connections", "flows", "frames", "samples", "stacks"])
def test_tables_of_the_catalog_are_described(name, campaign):
    """schemas/catalog describes only the first columns of flows and frames; the others are those of each sample."""
    described = yaml.safe_load((schemas.root() / "catalog" / f"{name}.yaml").read_text())["columns"]
    columns = query(campaign, f"select column_name, column_type from (describe {name})")
    assert len(columns) == len(described) or name in ("flows", "frames")
    for column, (found, found_type) in zip(described, columns, strict=False):
        table, _, like = column.get("like", "").partition(".")
        known = {each["name"]: each["type"] for each in schemas.table(table)["columns"]} if table else {}
        type_ = column.get("type") or known[like]
        assert (found, found_type) == (column["name"], DUCKDB_TYPES[type_])


def test_published_tables_are_views_of_the_catalog(campaign):
    con = duckdb.connect(str(campaign / "catalog.duckdb"), read_only=True)
    for name in process.TABLES:
        published = con.read_parquet(str(campaign / "tables" / f"{name}.parquet")).to_arrow_table()
        assert con.sql(f"from {name}").to_arrow_table() == published, name


def counts_of(directory, tables, environment=None):
    """Return the row counts of published tables, as a client in another working directory reports them."""
    counts = f"{{t: con.execute(f'select count(*) from {{t}}').fetchone()[0] for t in {tables}}}"
    return json.loads(client(directory, f"import json; print(json.dumps({counts}))", environment))


def test_views_created_by_others_are_replaced(indexed):
    before = query(indexed, "select * from flows order by all")
    with duckdb.connect(str(indexed / "catalog.duckdb")) as con:
        con.execute("drop view flows; create view flows as select 'theirs' as src from stored.flows")
        con.execute("create view stored.more as select 'theirs' as src")
    run("campaign", "index", indexed, "--views")
    assert query(indexed, "select * from flows order by all") == before != []
    assert query(indexed, "select count(*) from duckdb_views() where sql like '%theirs%'") == [(0,)]


def test_views_of_tables_created_later_open_anywhere_with_duckdb_1_0_0(indexed, tmp_path, old_client, capsys):
    """This also holds after the directory was moved. `acapella sql` needs no extra step."""
    before = (indexed / "catalog.duckdb").stat().st_mtime_ns
    conformance.run(argparse.Namespace(output=str(indexed / "tables"), **PRINTED))
    rows = pq.read_metadata(indexed / "tables" / "kappa_published.parquet").num_rows
    run("campaign", "index", indexed, "--views")
    assert (indexed / "catalog.duckdb").stat().st_mtime_ns == before
    counts = {"kappa_published": rows, "samples": 2, "frames": 4}
    assert counts_of(indexed, [*counts], old_client) == counts
    moved = indexed.rename(tmp_path / "it's [moved] to *")
    capsys.readouterr()
    run("sql", moved, "select count(*) as n from kappa_published")
    assert capsys.readouterr().out == f"n\n{rows}\n"
    run("campaign", "index", moved, "--views")
    assert counts_of(moved, ["kappa_published", "frames"], old_client) == {"kappa_published": rows, "frames": 4}
    assert sorted(path.name for path in moved.iterdir()) == ["acap", "catalog.duckdb", "flows", "raw", "tables"]


def test_content_depends_on_the_inputs_alone(indexed, tmp_path):
    first = content(indexed)
    moved = indexed.rename(tmp_path / "moved")
    index.build(Campaign(moved), threads=2, **queries.memory_limit("1M"))
    assert content(moved) == first


def test_databases_share_the_memory_of_the_job(directory, monkeypatch):
    limits, connect = [], queries.connect

    def limited(*arguments, **resources):
        con = connect(*arguments, **resources)
        if "memory_limit" in resources:
            limits.extend(con.execute("select current_setting('memory_limit')").fetchone())
        return con

    monkeypatch.setattr(queries, "connect", limited)
    run("campaign", "index", directory, "--memory", "1G")
    assert limits == ["215.2 MiB"] * index.DATABASES


@pytest.mark.parametrize(
    "row",
    [
        "../a\tS\tp\ta.pcap",
        "a\tS\x1b[2J\tp\ta.pcap",
        "a\tS\tp\t../a.pcap",
        "a\tS\tp",
        "a\tS\tp\ta.pcap\na\tS\tp\ta.pcap",
    ],
)
def test_names_in_the_collected_sheet_are_validated(directory, row, capsys):
    sheet = write_file(directory / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{row}\n")
    files = sorted(directory.rglob("*"))
    line = failed(capsys, "campaign", "index", directory)
    assert f"{sheet} line " in line
    assert line.isprintable()
    assert sorted(directory.rglob("*")) == files


def test_files_are_private_while_they_are_written(directory, monkeypatch):
    """This includes the files that DuckDB creates."""
    seen = {}

    def look(directory, *_):
        with os.scandir(directory) as entries:
            seen.update({entry.name: entry.stat().st_mode & 0o777 for entry in entries if ".part" in entry.name})

    call_before(monkeypatch, files, "finish", look)
    with with_umask(0o022):
        run("campaign", "index", directory)
    assert any(name.startswith(".catalog.duckdb.") for name in seen), seen
    assert set(seen.values()) == {0o600}, seen


def test_second_run_replaces_the_whole_catalog(indexed):
    add_sample(indexed, "c", WEST, (40, 60), [flow(41, 42)])
    counts, _ = index.build(Campaign(indexed))
    assert counts["samples"] == 3
    assert sorted(path.name for path in indexed.iterdir()) == ["acap", "catalog.duckdb", "flows", "raw"]


def test_view_frames_joins_flows_and_keeps_frames_without_a_flow(campaign, monkeypatch):
    monkeypatch.chdir(campaign)
    counts = "select count(*), count(flow), count(src), count(flow_id), count(distinct sample) from frames"
    ((frames, with_flow, *joined, samples),) = query(campaign, counts)
    assert [(frames, samples)] == query(campaign, "select sum(rows), count(*) filter (where rows > 0) from acaps")
    assert joined == [with_flow, with_flow]
    assert with_flow < frames


def test_connections_have_one_row_per_pair_in_the_direction_of_its_first_frame(tmp_path):
    flows = [
        flow(1, 5, syn=2, peer_flow=1, handshake_rtt_ns=77),
        flow(2, 6, src="10.0.0.2", dst="10.0.0.1", src_port=2000, dst_port=1000, syn=1, peer_flow=0),
        flow(3, 3, src_port=5, peer_flow=1),  # its peer flow has a different peer
    ]
    add_sample(tmp_path, "a", WEST, flows=flows)
    index.build(Campaign(tmp_path))
    columns = "src, fwd_flow, rev_flow, syn, handshake_rtt_ns, duration_ns"
    assert query(tmp_path, f"select {columns} from connections") == [("10.0.0.1", 0, 1, 3, 77, 5 * 10**9)]


def test_sample_without_an_acap_is_named_and_counts_in_no_table(directory, capsys):
    for path in directory.glob("*/b.parquet"):
        path.unlink()
    run("campaign", "index", directory)
    assert "1 sample in no table (excluded, or without an acap): b" in capsys.readouterr().out


def test_excluded_sample_is_in_no_table_but_samples(directory, capsys):
    """Sample d has no manifest, because its collection failed."""
    add_sample(directory, "c", WEST, (40, 60), [flow(41, 42)])
    rows = "".join(f"{name}\tWEST\tp\t{name}.pcap\n" for name in "abcd")
    write_file(directory / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{rows}")
    run("campaign", "index", directory, "--exclude", "a", "--failed", "d")
    assert "2 samples in no table (excluded, or without an acap): a, d" in capsys.readouterr().out
    found = query(directory, "select sample, site is null, acap is null, excluded from samples order by 1")
    digested = [(name, False, False, None) for name in "bc"]
    assert found == [("a", False, True, "config"), *digested, ("d", False, True, "failed")]
    assert query(directory, "select site, port, file from samples where sample = 'd'") == [("WEST", "p", None)]
    tables = ("flows", "stacks", "acaps")
    assert [query(directory, f"select count(*) from {table} where sample = 'a'") for table in tables] == [[(0,)]] * 3


@pytest.mark.parametrize(
    ("changed", "mistake"),
    [
        ({"site": "EAST"}, "another site or port"),
        ({"port": "p9"}, "another site or port"),
        ({"sample": "z"}, "names another sample"),
        ({"site": None}, "names no site"),
        ({"run": "first"}, "raw/a.json"),
        ({"site": "W\x1b]0;x\x07\x01"}, "manifest of a: name .* control character"),
        ({"environment": "E\u202e"}, "manifest of a: name .* control character"),
        ({"file": "../a.pcap"}, "manifest of a: '../a.pcap' is not the name of a file"),
    ],
)
def test_invalid_manifest_is_reported_in_one_line_and_leaves_no_catalog(directory, changed, mistake):
    change_json(directory / "raw" / "a.json", **changed)
    with pytest.raises(UserError, match=mistake) as error:
        index.build(Campaign(directory))
    assert "\n" not in str(error.value)
    assert not (directory / "catalog.duckdb").exists()
    assert sorted(path.name for path in directory.iterdir()) == ["acap", "flows", "raw"]


def test_site_called_all_is_rejected(tmp_path):
    add_sample(tmp_path, "a", ("all", "p1"), (0, 20), [])
    with pytest.raises(UserError, match="sum over all sites"):
        index.build(Campaign(tmp_path))


@pytest.mark.parametrize("part", [r"flows/a\.parquet", r"raw/a\.json"])
def test_missing_flow_table_or_manifest_of_an_acap_is_named(directory, part):
    (directory / part.replace("\\", "")).unlink()
    with pytest.raises(UserError, match=part):
        index.build(Campaign(directory))


def flip(file):
    """Invert the first quarter of a file's bytes, except the first four."""
    content = file.read_bytes()
    end = len(content) // 4
    file.write_bytes(content[:4] + bytes(byte ^ 0xFF for byte in content[4:end]) + content[end:])


def strip(file):
    """Remove the metadata of a Parquet file."""
    pq.write_table(pq.read_table(file).replace_schema_metadata({}), file)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("acap/b.parquet", flip),
        ("acap/b.parquet", strip),
        ("acap/b.parquet", lambda file: file.write_bytes(file.read_bytes()[:-50])),
        ("acap/b.parquet", lambda file: file.write_bytes(b"")),
        ("flows/b.parquet", flip),
        ("flows/b.parquet", strip),
        ("flows/b.parquet", lambda file: shutil.copy(file.parents[1] / "acap" / "b.parquet", file)),
        ("raw/b.json", lambda file: file.write_text("{")),
        ("raw/b.json", lambda file: file.write_text("[]")),
        ("raw/b.json", lambda file: file.write_bytes(b"\xff\xfe\x00")),
        ("raw/b.json", lambda file: change_json(file, bytes=2**70)),
    ],
)
def test_each_error_names_the_sample_and_keeps_the_earlier_catalog(indexed, name, change):
    before = (indexed / "catalog.duckdb").read_bytes()
    change(indexed / name)
    with pytest.raises(UserError, match=r"sample b\b") as error:
        index.build(Campaign(indexed))
    assert "\n" not in str(error.value)
    assert "sample a" not in str(error.value)
    assert (indexed / "catalog.duckdb").read_bytes() == before
    assert sorted(path.name for path in indexed.iterdir()) == ["acap", "catalog.duckdb", "flows", "raw"]


def test_missing_acaps_error_names_the_command_to_run(tmp_path):
    with pytest.raises(UserError, match="run acapella digest first"):
        index.build(Campaign(tmp_path))


@pytest.mark.parametrize(
    ("control", "not_sent", "filtered"),
    [
        (None, {}, False),
        (None, {"no-room": 0}, False),
        ("0" * 64, {}, True),
        (None, {"headerless": 2}, True),
        (None, None, True),
    ],
)
def test_sample_is_filtered_if_its_program_was_configured_or_withheld_frames(tmp_path, control, not_sent, filtered):
    program = {"program": "p.spec", "program_sha256": "0" * 64, "control_sha256": control, "not_sent": not_sent}
    add_sample(tmp_path, "a", testbed="local", method="fpga", p4=program)
    index.build(Campaign(tmp_path))
    assert query(tmp_path, "select filtered from samples") == [(filtered,)]


def test_view_frames_has_all_columns_of_an_acap(campaign):
    assert {column["name"] for column in schemas.table("frames")["columns"]} <= {
        name for (name,) in query(campaign, "select column_name from (describe frames)")
    }


def test_first_acap_of_a_campaign_can_have_several_captures(directory):
    """This acap has an additional column. DuckDB assumes that all files have the columns of the first one."""
    acap = directory / "acap" / "a.parquet"
    table = pq.read_table(acap)
    changed = table.append_column("file", pa.array(["x.pcap"] * len(table)).dictionary_encode())
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), acap)
    index.build(Campaign(directory))
    rows = [pq.read_metadata(path).num_rows for path in (directory / "acap").iterdir()]
    assert len(query(directory, "from frames")) == sum(rows) > 0


def test_each_footer_is_read_once(directory, monkeypatch):
    """Reads two files at once, so that there are several connections. DuckDB logs its reads."""
    add_sample(directory, "c", WEST, (30, 40), [flow(1, 2)])
    read, connect = Counter(), queries.connect

    def logged(*given, **options):
        """Return a connection that counts the reads of the ends of Parquet files when it is closed."""
        connection = log_reads(connect(*given, **options))

        def close():
            read.update(footer_reads(connection, directory))
            connection.close()

        return Mock(wraps=connection, close=close)

    monkeypatch.setattr(queries, "connect", logged)
    monkeypatch.setattr(index, "FILES_AT_ONCE", 2)
    monkeypatch.setattr(pq, "read_metadata", lambda *_: pytest.fail("a footer is read once more"))
    index.build(Campaign(directory))
    read["a", "acap"] -= 1  # the definition of view frames reads the columns of one acap
    assert read == {(name, kind): 1 for name in "abc" for kind in ("acap", "flows")}
