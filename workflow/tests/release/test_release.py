"""Tests a campaign's release: its content, what it excludes, and the consistency of its files."""

import contextlib
import functools
import gzip
import hashlib
import io
import ipaddress
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import dpkt
import pyarrow.parquet as pq
import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import processed, run
from acapella_testing.generated.generated_flowreports import write_tables
from acapella_testing.new_files import new_directory
from acapella_testing.oracles.naive_anonymize import CryptoPan
from acapella_testing.release_records import write_key
from acapella_testing.requirements import skip_if
from acapella_testing.runs.workflow_run import CAPTURES

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.flowreports import program
from acapella.release import columns as release_columns
from acapella.release import command as release
from acapella.release import flows as release_flows
from acapella_core.errors import UserError

KEY_BEGIN = 3  # value of the first byte of a key
FLOW_KEY = ("vlan", "mpls", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
ENDS = ("src", "dst")
SITES = ("University-of-Nowhere", "beta-secret")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return a campaign of the small captures with pseudonyms and all tables."""
    directory = tmp_path_factory.mktemp("release")
    rows = []
    for capture in sorted(CAPTURES.glob("*.gz")):
        name = capture.name.removesuffix(".pcap.gz")
        site = SITES[0] if name.startswith("alpha") else SITES[1]
        rows.append((f"{site}-{name}", site, name[-2:], str(capture)))
    campaign = processed(directory, rows, "--pseudonyms")
    if program.why_unavailable() is None:
        parts = [campaign / kind / f"{rows[0][0]}.parquet" for kind in ("acap", "flows")]
        created = ["-o", campaign / "flowreports" / rows[0][0], "--acap", parts[0], "--flows", parts[1]]
        run("p4", "reports", rows[0][3], "--sample", rows[0][0], *created)
        run("p4", "tables", campaign, "--pseudonyms", "--samples", rows[0][0])
    return campaign


def key_of_flow(row: dict) -> list:
    """Return the columns that identify a flow."""
    return [row[name] for name in FLOW_KEY]


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a Parquet file."""
    return pq.read_table(path).to_pylist()


def flow_tables(directory: Path) -> dict[str, list[dict]]:
    """Return the rows of the tables of flow reports in a directory."""
    return {name: rows_of(directory / f"{name}.parquet") for name in release_flows.TABLES}


def names_in(directory: Path) -> set[str]:
    """Return the names of a directory's files without suffixes."""
    return {path.stem for path in directory.iterdir()}


def pseudonym_of(pan: CryptoPan, text: str) -> str:
    """Return the pseudonym of an address as text."""
    return str(ipaddress.ip_address(pan.address(ipaddress.ip_address(text).packed)))


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    """Return a copy of the campaign."""
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.fixture(scope="module")
def released(finished) -> tuple[Path, str]:
    """Return the release of the campaign, and what the command printed."""
    target = finished.parent / "public"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run("release", finished, "-o", target)
    return target, printed.getvalue()


@pytest.fixture(scope="module")
def public(released) -> Path:
    """Return the release of the campaign."""
    return released[0]


def files(directory: Path) -> list[Path]:
    """Return all files below a directory."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_release_has_captures_acaps_flows_tables_and_a_description(public):
    files_only = ["README.md", "SHA256SUMS", "captures.tsv", "catalog.duckdb", "config.yaml", "croissant.json"]
    files_only.append("samples.tsv")
    assert {path.name for path in public.iterdir()} == {*files_only, "acap", "captures", "flows", "tables"}
    assert len(names_in(public / "captures")) == 3
    assert names_in(public / "captures") == names_in(public / "acap") == names_in(public / "flows")
    frames = sum(pq.read_metadata(path).num_rows for path in (public / "acap").iterdir())
    assert f"3 samples, {frames} frames" in (public / "README.md").read_text()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in files(public))


def test_sheet_states_filter_and_sampling_of_a_capture(finished, tmp_path):
    campaign = tmp_path / "mine"
    shutil.copytree(finished, campaign, symlinks=True)
    for link in (path for path in (campaign / "raw").iterdir() if path.is_symlink()):
        target = (finished / "raw" / link.name).resolve()
        link.unlink()
        link.symlink_to(target)
    manifest = next((campaign / "raw").glob("*alpha-p1.json"))
    taken = {"testbed": "local", "filter": "host 10.0.0.1", "one_in": 4, "one_in_by": "hash", "sampled_out": 9}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | taken))
    run("campaign", "index", campaign)
    run("campaign", "process", campaign)
    run("release", campaign, "-o", tmp_path / "public")
    sheet, quality = (read_rows(tmp_path / "public" / n) for n in ("samples.tsv", "tables/capture_quality.csv"))
    stated = {(row["filtered"], row["one_in"], row["sampled_out"]) for row in sheet}
    assert stated == {("true", "4", "9"), ("", "", "")}
    assert {row["excluded"] for row in sheet} == {row["excluded"] for row in quality} == {"filter, sampling", ""}
    assert b"10.0.0.1" in (campaign / "tables" / "restrictions.csv").read_bytes()
    assert not any(b"10.0.0.1" in path.read_bytes() for path in files(tmp_path / "public"))


def sums_of(directory: Path) -> dict[str, str]:
    """Return the checksums in SHA256SUMS by file."""
    return dict(reversed(line.split("  ")) for line in (directory / "SHA256SUMS").read_text().splitlines())


def test_checksums_cover_all_files(public):
    listed = sums_of(public)
    assert set(listed) == {path.relative_to(public).as_posix() for path in files(public)} - {"SHA256SUMS"}
    for name, digest in listed.items():
        assert hashlib.sha256((public / name).read_bytes()).hexdigest() == digest


def test_key_is_private_and_not_released(finished, public):
    key_file = finished / "release.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key = key_file.read_bytes()
    for path in files(public):
        content = path.read_bytes()
        for part in (key[:8], key[8:16], key[16:24], key[24:]):
            assert part not in content, path
            assert part.hex().encode() not in content, path


def test_names_are_pseudonyms_and_paths_are_absent(finished, public):
    for path in files(public):
        content = path.read_bytes() + path.name.encode()
        for word in (*SITES, "alpha-p1", str(finished.parent)):
            assert word.encode() not in content, f"{path} contains {word}"
    for path in (public / "acap").iterdir():
        metadata = json.loads(pq.read_metadata(path).metadata[b"acapella"])
        assert re.fullmatch(r"S[01]", metadata["site"])
        assert path.stem.startswith(f"{metadata['site']}-{metadata['port']}-")


def test_original_addresses_are_absent(public):
    addresses = set()
    for capture in CAPTURES.glob("*.gz"):
        for _, frame in dpkt.pcap.Reader(io.BytesIO(gzip.decompress(capture.read_bytes()))):
            addresses |= {frame[0:6], frame[6:12]}
            ethernet = dpkt.ethernet.Ethernet(frame)
            addresses |= {end for layer in [ethernet.data] if hasattr(layer, "src") for end in (layer.src, layer.dst)}
    addresses -= {b"\xff" * 6}
    assert len(addresses) > 8
    captured = b"".join(path.read_bytes() for path in (public / "captures").iterdir())
    assert not [address.hex() for address in addresses if address in captured]


def test_flows_match_the_anonymized_captures(finished, public, tmp_path):
    for capture in sorted((public / "captures").iterdir()):
        site, port, _ = capture.stem.split("-")
        created = [tmp_path / f"{kind}.parquet" for kind in ("acap", "flows")]
        words = ["--site", site, "--port", port, "--engine", "native"]
        run("digest", capture, "-o", created[0], "--flows", created[1], *words)
        assert created[0].read_bytes() == (public / "acap" / f"{capture.stem}.parquet").read_bytes()
        assert created[1].read_bytes() == (public / "flows" / f"{capture.stem}.parquet").read_bytes()
    ends, true = ends_of(public / "flows"), ends_of(finished / "flows")
    assert len(ends) == len(true) > 4
    assert not ends & true


def ends_of(flows: Path) -> set[str]:
    """Return the addresses in all flow tables of a directory."""
    return {row[end] for path in flows.iterdir() for row in rows_of(path) for end in ENDS}


def test_kept_parts_of_frames_have_the_same_times_lengths_and_stacks(finished, public):
    def frames(directory: Path) -> list:
        rows = (row for path in directory.iterdir() for row in rows_of(path))
        return sorted((row["ts_ns"], row["wire_len"], row["stack"]) for row in rows)

    before, after = frames(finished / "acap"), frames(public / "acap")
    assert [row[:2] for row in before] == [row[:2] for row in after]
    for (*_, whole), (*_, kept) in zip(before, after, strict=True):
        assert whole.split("/")[: kept.count("/") + 1] == kept.split("/")


def test_tables_without_addresses_are_released(finished, public):
    names = names_in(public / "tables")
    assert {"frame_sizes", "header_occurrence", "header_stack_sizes", "capture_quality"} <= names
    assert not names & {"top_flows", "stitched_flows"}
    for path in (public / "tables").iterdir():
        if path.stem in release_flows.TABLES or path.stem == "capture_quality":
            continue
        assert path.read_bytes() == (finished / "tables" / path.name).read_bytes()
    true, shown = (rows_of(each / "tables" / "capture_quality.parquet") for each in (finished, public))
    assert all(row.pop("sha256") for row in true)
    assert true == shown


def test_flow_reports_have_the_pseudonyms_of_the_captures_and_no_order_of_the_true_addresses(finished, tmp_path):
    skip_if(program.why_unavailable())
    key, public = write_key(tmp_path / "key", bytes(range(KEY_BEGIN, KEY_BEGIN + 32))), tmp_path / "public"
    run("release", finished, "-o", public, "--key-file", key)
    true, shown = (flow_tables(directory / "tables") for directory in (finished, public))
    flows = shown["flowreport_flows"]
    ends, plain = ends_of(public / "flows"), ends_of(finished / "flows")
    assert len({row["src"] for row in flows}) > 1
    assert {row[end] for row in flows for end in ENDS} <= ends
    texts = [path.read_text() for path in (public / "tables").glob("*.csv")]
    assert not [end for end in plain for text in texts if re.search(rf"(?<![\w.:]){re.escape(end)}(?![\w.:])", text)]
    assert flows == sorted(flows, key=key_of_flow)
    assert [row["flow"] for row in flows] == list(range(len(flows)))
    named = functools.partial(pseudonym_of, CryptoPan(key.read_bytes()))

    def windows(tables: dict, pseudonym) -> list:
        keys = {row["flow"]: key_of_flow(row) for row in tables["flowreport_flows"]}
        keys = {flow: [*key[:3], pseudonym(key[3]), pseudonym(key[4]), *key[5:]] for flow, key in keys.items()}
        return sorted(
            [*keys[row["flow"]], row["window_ns"], row["bytes"], row["bytes_measured"]]
            for row in tables["flowreport_windows"]
        )

    assert windows(true, named) == windows(shown, str)
    order = [[*(row[name] for name in FLOW_KEY[:3]), named(row["src"])] for row in true["flowreport_flows"]]
    assert order != sorted(order), "with this key the order of the true addresses is different"


def test_flows_of_each_sample_are_numbered_by_their_pseudonyms(tmp_path):
    """Uses generated tables with many flows and two samples, so that no P4 program is needed."""
    (tmp_path / "out").mkdir()
    campaign, key = Campaign(write_tables(tmp_path, samples=2, flows=60)), bytes(range(32))
    release_flows.write(campaign, tmp_path / "out", key)
    pan = CryptoPan(key)
    true, shown = (flow_tables(tmp_path / name) for name in ("tables", "out"))
    true_order, number = {}, {}
    for sample in sorted({row["sample"] for row in true["flowreport_flows"]}):
        for row in [row for row in true["flowreport_flows"] if row["sample"] == sample]:
            true_order[sample, row["flow"]] = row | {end: pseudonym_of(pan, row[end]) for end in ENDS}
        ordered = sorted((row for row in true_order.values() if row["sample"] == sample), key=key_of_flow)
        number |= {(sample, row["flow"]): place for place, row in enumerate(ordered)}
    assert [number[place] for place in sorted(number)] != [place[1] for place in sorted(number)]
    for name in release_flows.TABLES:
        rows = [(row["sample"], row["flow"]) for row in true[name]]
        named = [true_order[row] for row in rows] if name == release_flows.FLOWS else true[name]
        expected = [row | {"flow": number[place]} for row, place in zip(named, rows, strict=True)]
        assert shown[name] == sorted(expected, key=lambda row: [row.get(k) for k in ("sample", "flow", "window_ns")])


def test_tables_of_flow_reports_match_their_provenance_and_are_never_copied(copied, tmp_path):
    assert all(release_columns.why_private(name) for name in release_flows.TABLES)
    skip_if(program.why_unavailable())
    with (copied / "tables" / "flowreport_windows.csv").open("a") as table:
        table.write("another row\n")
    with pytest.raises(UserError, match="does not have the checksum in its provenance"):
        release.release_tables(Campaign(copied), tmp_path / "tables", bytes(32), hidden=True)


def test_release_depends_on_the_key_alone_and_its_map_of_names_is_private(finished, public, tmp_path):
    again, changed, names = (tmp_path / name for name in ("again", "changed", "names.tsv"))
    run("release", finished, "-o", again, "--pseudonyms", names)
    one, other = sums_of(again), sums_of(public)
    assert {name for name in one | other if one.get(name) != other.get(name)} <= {"catalog.duckdb"}
    run("anonymize", "--new-key", tmp_path / "key")
    options = ["--macs", "blank", "--pseudonyms", names]  # a later release replaces the map
    run("release", finished, "-o", changed, "--key-file", tmp_path / "key", *options)
    captures = [sorted((directory / "captures").iterdir()) for directory in (public, changed)]
    for one, other in zip(*captures, strict=True):
        assert one.stat().st_size == other.stat().st_size
        assert one.read_bytes() != other.read_bytes()
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    rows = {row["sample"]: row for row in read_rows(names)}
    released = read_rows(changed / "samples.tsv")
    assert {row["sample"] for row in released} == set(rows)
    assert len(rows) == 3
    for row in released:
        check_true_names(finished, row, rows[row["sample"]])


def check_true_names(finished: Path, row: dict, known: dict) -> None:
    """Check the row of a sample in the map of names by its row in the sheet of a release."""
    assert (row["site"], row["port"]) == (known["site"], known["port"])
    true = finished / "acap" / f"{known['true_sample']}.parquet"
    assert pq.read_metadata(true).num_rows == int(row["frames"])
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
def test_usage_errors_are_one_line_and_leave_no_files(request, tmp_path, capsys, words, message):
    finished, public = request.getfixturevalue("finished"), request.getfixturevalue("public")
    places = {"public": public, "new": tmp_path / "new", "missing": tmp_path / "missing"}
    assert main(["release", str(finished), *(word.format(**places) for word in words)]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("public")  # the release creates the key
def test_true_names_are_released_or_rejected_if_pseudonyms_are_requested(finished, tmp_path, capsys):
    campaign = new_directory(tmp_path / "open")
    for name in ("raw", "acap", "flows", "partial"):
        shutil.copytree(finished / name, campaign / name)
    shutil.copyfile(finished / "catalog.duckdb", campaign / "catalog.duckdb")
    run("campaign", "process", campaign)
    run("release", campaign, "--key-file", finished / "release.key")
    public = campaign / "release"
    assert (public / "captures" / f"{SITES[0]}-alpha-p1.pcap").is_file()
    assert "samples have their original names" in (public / "README.md").read_text()
    capsys.readouterr()
    before = files(campaign)
    assert main(["release", str(campaign), "--pseudonyms", "-o", str(tmp_path / "hidden")]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"acapella: error: {campaign / 'tables'}: the tables have original names of sites")
    assert line.endswith("; run snakemake --config pseudonyms=True, then release again")
    assert (printed.out, files(campaign), (tmp_path / "hidden").exists()) == ("", before, False)


@pytest.mark.usefixtures("public")  # the release creates the key
def test_tables_with_true_names_are_omitted_with_the_reason(copied, public, tmp_path, capsys):
    """The provenance is that of an earlier version."""
    (copied / "provenance" / "process.json").rename(copied / "provenance.json")
    (copied / "tables" / "consistency.parquet").write_bytes(SITES[0].encode())
    outputs = {"tables/consistency.parquet": "0" * 64}
    (copied / "provenance" / "consistency.json").write_text(json.dumps({"outputs": outputs, "parameters": {}}))
    capsys.readouterr()
    run("release", copied, "--pseudonyms", "-o", tmp_path / "hidden")
    assert names_in(tmp_path / "hidden" / "tables") == names_in(public / "tables")
    assert not [path for path in files(tmp_path / "hidden") if SITES[0].encode() in path.read_bytes()]
    assert [line for line in capsys.readouterr().out.splitlines() if "consistency" in line] == [
        "table consistency omitted: original names of sites, ports or samples; to create them with pseudonyms: "
        "snakemake --config pseudonyms=True; then release again"
    ]
    assert "- consistency: original names of sites, ports or samples\n" in (tmp_path / "hidden/README.md").read_text()
    assert (copied / "release-pseudonyms.tsv").is_file()


def test_omitted_tables_are_listed_with_the_reason(finished, released):
    public, printed = released
    lines = re.findall(r"^tables? ([\w, ]+) omitted: (.*)$", printed, re.M)
    reasons = {name: reason for names, reason in lines for name in names.split(", ")}
    assert set(reasons) == names_in(finished / "tables") - names_in(public / "tables")
    assert re.fullmatch(r".*addresses.*: columns? .*\bsrc\b.*", reasons["top_flows"])
    readme = (public / "README.md").read_text()
    assert all(f"- {names}: {reason}\n" in readme for names, reason in lines)


FRAMES = "select sample, count(*), count(src), sum(wire_len) from frames group by sample order by sample"


def queried(catalog: Path, query: str, cwd: Path, environment: dict | None = None, search: Path | None = None) -> list:
    """Return the rows of a query to a catalog by a DuckDB client that runs in ``cwd``."""
    program = (
        "import duckdb, json, sys; c = duckdb.connect(sys.argv[1], read_only=True); "
        + ("c.execute('set file_search_path = ' + chr(39) + sys.argv[3] + chr(39)); " if search else "")
        + "print(json.dumps(c.execute(sys.argv[2]).fetchall(), default=str))"
    )
    command = [sys.executable, "-c", program, str(catalog), query, str(search)]
    found = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.fixture(params=["installed", "1.0.0"])
def client(request):
    """Return the environment of a DuckDB client: the installed version, and the oldest that can open a catalog."""
    return None if request.param == "installed" else request.getfixturevalue("old_client")


def test_catalog_of_a_release_works_in_old_clients_and_after_a_move(public, client, tmp_path):
    moved = tmp_path / "elsewhere" / "set"
    shutil.copytree(public, moved)
    catalog = moved / "catalog.duckdb"
    expected = []
    for path in sorted((moved / "acap").iterdir()):
        rows = rows_of(path)
        with_flow = sum(row["flow"] is not None for row in rows)
        expected.append([path.stem, len(rows), with_flow, str(sum(row["wire_len"] for row in rows))])
    for where in ({"cwd": moved}, {"cwd": tmp_path, "search": moved}):
        found = queried(catalog, FRAMES, environment=client, **where)
        assert [[*row[:3], str(row[3])] for row in found] == expected
    flows = [[path.stem, pq.read_metadata(path).num_rows] for path in sorted((moved / "flows").iterdir())]
    query = "select sample, count(*) from flows group by sample order by sample"
    assert queried(catalog, query, cwd=tmp_path, environment=client) == flows
    query = "select sample, site, frames from samples order by sample"
    sheet = [[row["sample"], row["site"], int(row["frames"])] for row in read_rows(moved / "samples.tsv")]
    assert queried(catalog, query, cwd=tmp_path, environment=client) == sorted(sheet)
    for path in sorted((moved / "tables").glob("*.parquet")):
        found = queried(catalog, f"select count(*) from {path.stem}", cwd=tmp_path, environment=client)
        assert found == [[pq.read_metadata(path).num_rows]]


def test_acapella_sql_reads_a_release_from_anywhere(public, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("sql", public, FRAMES, "--format", "csv")
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == sorted(path.stem for path in (public / "acap").iterdir())
