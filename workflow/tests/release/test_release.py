"""Tests a campaign's release: its content, what it excludes, and the consistency of its files."""

import contextlib
import filecmp
import functools
import gzip
import io
import ipaddress
import json
import re
import shutil
import stat
import sys
from pathlib import Path

import dpkt
import pyarrow.parquet as pq
import pytest
from acapella_testing import processes
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed, processed, run
from acapella_testing.generated.generated_flowreports import write_tables
from acapella_testing.new_files import change_json, new_directory, write_file, write_json
from acapella_testing.oracles.naive_anonymize import CryptoPan
from acapella_testing.release_records import checksums_of, write_key
from acapella_testing.requirements import skip_if
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import CAPTURES

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.digest.acap_files import metadata_of
from acapella.flowreports import program
from acapella.release import columns as release_columns
from acapella.release import command as release
from acapella.release import flows as release_flows
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

KEY_BEGIN = 3  # value of the first byte of a key
FLOW_KEY = ("vlan", "mpls", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
ENDS = ("src", "dst")
SITES = ("University-of-Nowhere", "beta-secret")
CHANGED = (*release_flows.TABLES, "capture_quality")  # tables with other values than in the campaign


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return a campaign of the small captures with pseudonyms and all tables."""
    captures = {path.name.removesuffix(".pcap.gz"): path for path in sorted(CAPTURES.glob("*.gz"))}
    sites = {name: SITES[name.startswith("beta")] for name in captures}
    rows = [(f"{site}-{name}", site, name[-2:], captures[name]) for name, site in sites.items()]
    campaign = processed(tmp_path_factory.mktemp("release"), rows, "--pseudonyms")
    if program.why_unavailable() is None:
        sample, *_, capture = rows[0]
        digest = [f"--{kind}={campaign / kind / sample}.parquet" for kind in ("acap", "flows")]
        run("p4", "reports", capture, "--sample", sample, "-o", campaign / "flowreports" / sample, *digest)
        run("p4", "tables", campaign, "--pseudonyms", "--samples", sample)
    return campaign


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a Parquet file."""
    return pq.read_table(path).to_pylist()


def names_in(directory: Path) -> set[str]:
    """Return the names of a directory's files without suffixes."""
    return {path.stem for path in directory.iterdir()}


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    """Return a copy of the campaign."""
    return shutil.copytree(finished, tmp_path / "copy")


def in_order_of_key(rows: list[dict]) -> list[dict]:
    """Return flows in the order of the columns that identify them."""
    return sorted(rows, key=lambda row: [row[name] for name in FLOW_KEY])


def with_pseudonyms(pan: CryptoPan, row: dict) -> dict:
    """Return a flow with the pseudonyms of its addresses."""
    ends = {end: pan.address(ipaddress.ip_address(row[end]).packed) for end in ENDS}
    return row | {end: str(ipaddress.ip_address(packed)) for end, packed in ends.items()}


@pytest.fixture(scope="module")
def public(finished) -> Path:
    """Return the release of the campaign. What the command printed is in printed.txt next to it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run("release", finished, "-o", finished.parent / "public")
    write_file(finished.parent / "printed.txt", printed.getvalue())
    return finished.parent / "public"


def files(directory: Path) -> list[Path]:
    """Return all files below a directory."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_release_has_captures_acaps_flows_tables_and_a_description(public):
    files_only = ["README.md", "SHA256SUMS", "captures.tsv", "catalog.duckdb", "config.yaml", "croissant.json"]
    directories = {"acap", "captures", "flows", "tables"}
    assert {path.name for path in public.iterdir()} == {*files_only, "samples.tsv", *directories}
    assert len(names_in(public / "captures")) == 3
    assert names_in(public / "captures") == names_in(public / "acap") == names_in(public / "flows")
    frames = sum(pq.read_metadata(path).num_rows for path in (public / "acap").iterdir())
    assert f"3 samples, {frames} frames" in (public / "README.md").read_text()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in files(public))


@pytest.mark.soak
def test_sheet_states_filter_and_sampling_of_a_capture(copied, tmp_path):
    public, manifest = tmp_path / "public", next((copied / "raw").glob("*alpha-p1.json"))
    taken = {"testbed": "local", "filter": "host 10.0.0.1", "one_in": 4, "one_in_by": "hash", "sampled_out": 9}
    change_json(manifest, **taken)
    run("campaign", "index", copied)
    run("campaign", "process", copied)
    run("release", copied, "-o", public)
    sheet, quality = (read_rows(public / name) for name in ("samples.tsv", "tables/capture_quality.csv"))
    assert {(row["filtered"], row["one_in"], row["sampled_out"]) for row in sheet} == {("true", "4", "9"), ("", "", "")}
    assert {row["excluded"] for row in sheet} == {row["excluded"] for row in quality} == {"filter, sampling", ""}
    assert b"10.0.0.1" in (copied / "tables" / "restrictions.csv").read_bytes()
    assert not any(b"10.0.0.1" in path.read_bytes() for path in files(public))


def test_checksums_cover_all_files(public):
    made = {path.relative_to(public).as_posix(): sha256_of(path) for path in files(public)}
    listed = checksums_of(public)
    assert listed.keys() == made.keys() - {"SHA256SUMS"}
    assert listed.items() <= made.items()


def test_key_is_private_and_not_released(finished, public):
    key_file = finished / "release.key"
    parts = [key_file.read_bytes()[at : at + 8] for at in range(0, 32, 8)]
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert [path for path in files(public) if any(part in path.read_bytes() for part in parts)] == []
    assert [path for path in files(public) if any(part.hex().encode() in path.read_bytes() for part in parts)] == []


def test_names_are_pseudonyms_and_paths_are_absent(finished, public):
    words = [word.encode() for word in (*SITES, "alpha-p1", str(finished.parent))]
    for path in files(public):
        assert not [word for word in words if word in path.read_bytes() + path.name.encode()], path
    for path in (public / "acap").iterdir():
        metadata = metadata_of(path)
        assert re.fullmatch(r"S[01]", metadata["site"])
        assert path.stem.startswith(f"{metadata['site']}-{metadata['port']}-")


def test_original_addresses_are_absent(public):
    addresses = set()
    for capture in CAPTURES.glob("*.gz"):
        for _, frame in dpkt.pcap.Reader(io.BytesIO(gzip.decompress(capture.read_bytes()))):
            layer = dpkt.ethernet.Ethernet(frame).data
            addresses |= {frame[0:6], frame[6:12], *((layer.src, layer.dst) if hasattr(layer, "src") else ())}
    captured = b"".join(path.read_bytes() for path in (public / "captures").iterdir())
    assert len(addresses - {b"\xff" * 6}) > 8
    assert not [address.hex() for address in addresses - {b"\xff" * 6} if address in captured]


def test_flows_match_the_anonymized_captures(finished, public, tmp_path):
    acap, flows = (tmp_path / f"{kind}.parquet" for kind in ("acap", "flows"))
    for capture in sorted((public / "captures").iterdir()):
        site, port, _ = capture.stem.split("-")
        run("digest", capture, "-o", acap, "--flows", flows, "--site", site, "--port", port, "--engine", "native")
        assert acap.read_bytes() == (public / "acap" / f"{capture.stem}.parquet").read_bytes()
        assert flows.read_bytes() == (public / "flows" / f"{capture.stem}.parquet").read_bytes()
    ends, true = ends_of(public / "flows"), ends_of(finished / "flows")
    assert len(ends) == len(true) > 4
    assert not ends & true


def ends_of(flows: Path) -> set[str]:
    """Return the addresses in all flow tables of a directory."""
    return {row[end] for path in flows.iterdir() for row in rows_of(path) for end in ENDS}


def test_kept_parts_of_frames_have_the_same_times_lengths_and_stacks(finished, public):
    acaps = ([row for path in (each / "acap").iterdir() for row in rows_of(path)] for each in (finished, public))
    before, after = (sorted((row["ts_ns"], row["wire_len"], row["stack"]) for row in frames) for frames in acaps)
    assert [row[:2] for row in before] == [row[:2] for row in after]
    stacks = [(full.split("/"), kept.split("/")) for (*_, full), (*_, kept) in zip(before, after, strict=True)]
    assert [pair for pair in stacks if pair[0][: len(pair[1])] != pair[1]] == []


def test_tables_without_addresses_are_released(finished, public):
    names = names_in(public / "tables")
    assert {"frame_sizes", "header_occurrence", "header_stack_sizes", "capture_quality"} <= names
    assert not names & {"top_flows", "stitched_flows"}
    same = [path.name for path in (public / "tables").iterdir() if path.stem not in CHANGED]
    assert filecmp.cmpfiles(finished / "tables", public / "tables", same, shallow=False) == (same, [], [])
    true, shown = (rows(each, "capture_quality") for each in (finished, public))
    assert all(row.pop("sha256") for row in true)
    assert true == shown


@pytest.mark.soak
def test_flow_reports_have_the_pseudonyms_of_the_captures_and_no_order_of_the_true_addresses(finished, tmp_path):
    skip_if(program.why_unavailable())
    key, public = write_key(tmp_path / "key", bytes(range(KEY_BEGIN, KEY_BEGIN + 32))), tmp_path / "public"
    run("release", finished, "-o", public, "--key-file", key)
    true, flows = (rows(each, release_flows.FLOWS) for each in (finished, public))
    assert len({row["src"] for row in flows}) > 1
    assert {row[end] for row in flows for end in ENDS} <= ends_of(public / "flows")
    texts = "\n".join(path.read_text() for path in (public / "tables").glob("*.csv"))
    assert not ends_of(finished / "flows") & set(re.findall(r"[\w.:]+", texts))
    assert flows == in_order_of_key(flows)
    assert [row["flow"] for row in flows] == list(range(len(flows)))
    named = [with_pseudonyms(CryptoPan(key.read_bytes()), row) for row in true]

    def windows(directory: Path, flows: list[dict]) -> list:
        keys = {row["flow"]: [row[name] for name in FLOW_KEY] for row in flows}
        found, values = rows(directory, "flowreport_windows"), ("window_ns", "bytes", "bytes_measured")
        return sorted([*keys[row["flow"]], *(row[name] for name in values)] for row in found)

    assert windows(finished, named) == windows(public, flows)
    assert named != in_order_of_key(named), "with this key the order of the true addresses is different"


@pytest.mark.soak
def test_flows_of_each_sample_are_numbered_by_their_pseudonyms(tmp_path):
    """Uses generated tables with many flows and two samples, so that no P4 program is needed."""
    campaign, key, number = Campaign(write_tables(tmp_path, samples=2, flows=60)), bytes(range(32)), {}
    release_flows.write(campaign, new_directory(tmp_path / "out"), key)
    named = [with_pseudonyms(CryptoPan(key), row) for row in rows(tmp_path, release_flows.FLOWS)]
    for sample in {row["sample"] for row in named}:
        ordered = in_order_of_key([row for row in named if row["sample"] == sample])
        number |= {(sample, row["flow"]): place for place, row in enumerate(ordered)}
    assert [number[place] for place in sorted(number)] != [place[1] for place in sorted(number)]
    for name in release_flows.TABLES:
        true = named if name == release_flows.FLOWS else rows(tmp_path, name)
        expected = [row | {"flow": number[row["sample"], row["flow"]]} for row in true]
        expected.sort(key=lambda row: [row.get(name) for name in ("sample", "flow", "window_ns")])
        assert rows_of(tmp_path / "out" / f"{name}.parquet") == expected


def test_tables_of_flow_reports_match_their_provenance_and_are_never_copied(copied, tmp_path):
    assert all(release_columns.why_private(name) for name in release_flows.TABLES)
    skip_if(program.why_unavailable())
    with (copied / "tables" / "flowreport_windows.csv").open("a") as table:
        table.write("another row\n")
    with pytest.raises(UserError, match="does not match the checksum in its provenance file"):
        release.release_tables(Campaign(copied), tmp_path / "tables", bytes(32), hidden=True)


@pytest.mark.soak
def test_release_depends_on_the_key_alone_and_its_map_of_names_is_private(finished, public, tmp_path):
    again, changed, names = (tmp_path / name for name in ("again", "changed", "names.tsv"))
    run("release", finished, "-o", again, "--pseudonyms", names)
    assert {name for name, _ in checksums_of(again).items() ^ checksums_of(public).items()} <= {"catalog.duckdb"}
    run("anonymize", "--new-key", tmp_path / "key")
    # A later release replaces the map.
    run("release", finished, "-o", changed, "--key-file", tmp_path / "key", "--macs", "blank", "--pseudonyms", names)
    for one, other in zip(*(sorted((each / "captures").iterdir()) for each in (public, changed)), strict=True):
        assert one.stat().st_size == other.stat().st_size
        assert one.read_bytes() != other.read_bytes()
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    names_of, released = ({row["sample"]: row for row in read_rows(p)} for p in (names, changed / "samples.tsv"))
    assert released.keys() == names_of.keys()
    assert len(names_of) == 3
    for known, row in ((names_of[sample], released[sample]) for sample in names_of):
        assert (row["site"], row["port"]) == (known["site"], known["port"])
        assert pq.read_metadata(finished / "acap" / f"{known['true_sample']}.parquet").num_rows == int(row["frames"])
        assert known["true_sample"].startswith(known["true_site"])
        assert known["true_site"] in SITES
        assert known["true_sample"].endswith(known["true_port"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "{public}"], "already exists"),
        (["-o", "{new}", "--key-file", "{new}/key"], "the key would be published"),
        (["-o", "{new}", "--key-file", "{missing}"], "cannot read the key"),
        (["-o", "{missing}/new"], "no such directory"),
        (["-o", "{new}", "--pseudonyms", "{new}/names.tsv"], "original names would be published"),
        (["-o", "{new}", "--pseudonyms", "{missing}/names.tsv"], "no such directory"),
        (["-o", "{new}", "--pseudonyms", "{public}/README.md"], "is not a map of names"),
    ],
)
@pytest.mark.usefixtures("public")
def test_usage_errors_are_one_line_and_leave_no_files(finished, tmp_path, capsys, words, message):
    paths = {"public": finished.parent / "public", "new": tmp_path / "new", "missing": tmp_path / "missing"}
    assert message in failed(capsys, "release", finished, *(word.format(**paths) for word in words))
    assert not list(tmp_path.iterdir())


@pytest.mark.soak
@pytest.mark.usefixtures("public")  # the release creates the key
def test_true_names_are_released_or_rejected_if_pseudonyms_are_requested(finished, tmp_path, capsys):
    kept = shutil.ignore_patterns("tables", "provenance", "flowreports", "config.json", "release.key")
    campaign, hidden = shutil.copytree(finished, tmp_path / "open", ignore=kept), tmp_path / "hidden"
    run("campaign", "process", campaign)
    run("release", campaign, "--key-file", finished / "release.key")
    assert (campaign / "release" / "captures" / f"{SITES[0]}-alpha-p1.pcap").is_file()
    assert "samples have their original names" in (campaign / "release" / "README.md").read_text()
    before = files(campaign)
    line = failed(capsys, "release", campaign, "--pseudonyms", "-o", hidden)
    assert line.startswith(f"acapella: error: {campaign / 'tables'}: the tables have original names of sites")
    assert line.endswith("; set pseudonyms: true in the campaign's config, run snakemake, then release again")
    assert files(campaign) == before
    assert not hidden.exists()


@pytest.mark.soak
@pytest.mark.usefixtures("public")  # the release creates the key
def test_tables_with_true_names_are_omitted_with_the_reason(copied, public, tmp_path, capsys):
    """The provenance is that of an earlier version."""
    hidden, provenance = tmp_path / "hidden", {"outputs": {"tables/consistency.parquet": "0" * 64}, "parameters": {}}
    (copied / "provenance" / "process.json").rename(copied / "provenance.json")
    write_file(copied / "tables" / "consistency.parquet", SITES[0])
    write_json(copied / "provenance" / "consistency.json", provenance)
    run("release", copied, "--pseudonyms", "-o", hidden)
    assert names_in(hidden / "tables") == names_in(public / "tables")
    assert not [path for path in files(hidden) if SITES[0].encode() in path.read_bytes()]
    assert [line for line in capsys.readouterr().out.splitlines() if "consistency" in line] == [
        "table consistency omitted: original names of sites, ports or samples; to create them with pseudonyms: "
        "set pseudonyms: true in the campaign's config, run snakemake, then release again"
    ]
    assert "- consistency: original names of sites, ports or samples\n" in (hidden / "README.md").read_text()
    assert (copied / "release-pseudonyms.tsv").is_file()


def test_omitted_tables_are_listed_with_the_reason(finished, public):
    lines = re.findall(r"^tables? ([\w, ]+) omitted: (.*)$", (finished.parent / "printed.txt").read_text(), re.M)
    reasons = {name: reason for names, reason in lines for name in names.split(", ")}
    assert set(reasons) == names_in(finished / "tables") - names_in(public / "tables")
    assert re.fullmatch(r".*addresses.*: columns? .*\bsrc\b.*", reasons["top_flows"])
    readme = (public / "README.md").read_text()
    assert [line for line in lines if f"- {': '.join(line)}\n" not in readme] == []


FRAMES = "select sample, count(*), count(src), sum(wire_len) from frames group by sample order by sample"


def queried(catalog: Path, *queries: str, cwd: Path, environment: dict | None = None) -> list:
    """Return the rows of each query to a catalog by a DuckDB client that runs in ``cwd``."""
    program = "import duckdb, json, sys; c = duckdb.connect(sys.argv[1], read_only=True); "
    program += "print(json.dumps([c.execute(query).fetchall() for query in sys.argv[2:]], default=str))"
    found = processes.run(sys.executable, "-c", program, catalog, *queries, cwd=cwd, env=environment)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.fixture(params=["installed", "1.0.0"])
def client(request):
    """Return the environment of a DuckDB client: the installed version, or the oldest that can open a catalog."""
    return None if request.param == "installed" else request.getfixturevalue("old_client")


@pytest.mark.soak
def test_catalog_of_a_release_works_in_old_clients_and_after_a_move(public, client, tmp_path):
    moved = shutil.copytree(public, tmp_path / "elsewhere" / "set")
    expected = []
    for name, frames in ((path.stem, rows_of(path)) for path in sorted((moved / "acap").iterdir())):
        numbers = len(frames), sum(row["flow"] is not None for row in frames)
        expected.append([name, *numbers, str(sum(row["wire_len"] for row in frames))])
    tables = {path.stem: pq.read_metadata(path).num_rows for path in (moved / "tables").glob("*.parquet")}
    stored = (
        "select sample, count(*) from flows group by sample order by sample",
        "select sample, site, frames from samples order by sample",
        " union all ".join(f"select '{name}', count(*) from {name}" for name in tables),
    )
    ask = functools.partial(queried, moved / "catalog.duckdb", environment=client)
    (here,) = ask(FRAMES, cwd=moved)
    *others, _, frames = ask(*stored, f"set file_search_path = '{moved}'", FRAMES, cwd=tmp_path)
    assert [[[*row[:3], str(row[3])] for row in found] for found in (here, frames)] == [expected, expected]
    flows, sheet, counts = others
    assert flows == [[path.stem, pq.read_metadata(path).num_rows] for path in sorted((moved / "flows").iterdir())]
    assert sheet == sorted([row["sample"], row["site"], int(row["frames"])] for row in read_rows(moved / "samples.tsv"))
    assert dict(counts) == tables
    assert len(tables) > 5


def test_acapella_sql_reads_a_release_from_anywhere(public, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("sql", public, FRAMES, "--format", "csv")
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == sorted(path.stem for path in (public / "acap").iterdir())
    copy = shutil.copytree(public, tmp_path / "copy")
    min((copy / "acap").iterdir()).unlink()
    assert main(["sql", str(copy), FRAMES]) == 2
    assert " are missing (acap/" in capsys.readouterr().err
