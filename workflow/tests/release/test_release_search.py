"""Tests which data a release may contain, and the search that rejects a release with other data."""

import base64
import functools
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.release_frames import SAMPLES, TEXT, frames
from acapella_testing.generated.files_campaign import failed, indexed, processed, run
from acapella_testing.new_files import new_directory, write_file, write_json
from acapella_testing.release_records import pcap, text_of, write_key

from acapella.digest.acap_files import metadata_of
from acapella.release import catalog as release_catalog
from acapella.release import columns as release_columns
from acapella.release import command as release
from acapella.release import search as release_search
from acapella_core import _native, decompression, schemas
from acapella_core.errors import UserError

SITE = "Nowhere-University"
START = 10**18


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign of two captures with all tables."""
    directory, rows = tmp_path_factory.mktemp("search"), []
    for number, sample in enumerate(SAMPLES):
        each = [(START + 1000 * n, frame) for n, frame in enumerate(frames(random.Random(number)))]
        rows.append((sample, SITE, f"p{number}", write_pcap(directory / f"true-{number}.pcap", each)))
    return processed(directory, rows, "--pseudonyms")


@pytest.fixture(scope="module")
def created(campaign) -> tuple[Path, list]:
    """Return the release of the campaign, and the arguments of the search in it."""
    target, found, check = campaign.parent / "public", [], release_search.check
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_search, "check", lambda part, *rest: (found.extend(rest), check(part, *rest)))
        run("release", campaign, "-o", target, "--max-decompressed", "7G")
    return target, found


@pytest.fixture(scope="module")
def public(created) -> Path:
    """Return the release of the campaign."""
    return created[0]


def search_error(created, directory: Path, change) -> str:
    """Apply a change to a copy of the release; return the error of the search."""
    public, arguments = created
    part = shutil.copytree(public, directory / "part")
    change(part)
    with pytest.raises(UserError) as raised:
        release_search.check(part, *arguments)
    shutil.rmtree(part)
    return str(raised.value)


def test_checksums_of_original_files_are_not_released(campaign, public):
    originals = [path for kind in ("raw", "acap", "flows") for path in (campaign / kind).iterdir() if path.is_file()]
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in originals]
    assert len(digests) >= 8
    with duckdb.connect(str(campaign / "catalog.duckdb"), read_only=True) as con:
        known = {text for (text,) in con.sql("select sha256 from samples").fetchall()}
    assert known <= {digest.hex() for digest in digests}
    forms = [each for digest in digests for each in (digest.hex().encode(), digest.hex().upper().encode())]
    forms += [*digests, *(base64.b64encode(digest)[:43] for digest in digests)]
    for path in (path for path in public.rglob("*") if path.is_file()):
        content = path.read_bytes() + text_of(path).encode()  # its bytes, and all its values if they are compressed
        assert not [form for form in forms if form in content], path


def test_released_columns_are_described_and_do_not_identify():
    listed = yaml.safe_load((schemas.root() / "released_columns.yaml").read_text(encoding="utf-8"))
    created = {"frames", "flows", "flowreport_flows", "flowreport_windows"}  # from anonymized captures, or renamed
    assert "files" not in listed.pop(release_columns.METADATA)
    for table, columns in listed.items():
        path = schemas.root() / "inputs" / f"{table}.yaml"  # schema of the infrastructure study
        schema = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else schemas.table(table)
        described = {column["name"]: column["unit"] for column in schema["columns"]}
        assert set(columns) <= set(described), table
        assert len(set(columns)) == len(columns), table
        if table not in created:
            assert not [name for name in columns if described[name] in release_columns.PRIVATE_UNITS], table
            assert not release_columns.IDENTIFYING_COLUMNS & set(columns), table
            assert "sha256" not in columns, table
            assert described.get("flow") != "row", table
    assert not listed.keys() & {"top_flows", "stitched_flows", "restrictions", "flow_reports", "flow_report_series"}


def test_released_files_have_listed_columns_only(public):
    found = {}
    for path in public.rglob("*.parquet"):
        table = {"acap": "frames", "flows": "flows"}.get(path.parent.name, path.stem)
        found[table] = set(pq.read_schema(path).names)
        assert found[table] <= set(release_columns.published_columns(table)), path
    heads = {path.stem: set(path.read_text().splitlines()[0].split(",")) for path in public.glob("tables/*.csv")}
    assert heads == {table: columns for table, columns in found.items() if table not in ("frames", "flows")}
    assert {"frames", "flows", "capture_quality", "frame_sizes"} <= set(found)
    assert "sha256" not in found["capture_quality"]


@pytest.mark.soak
@pytest.mark.skipif(not _native.confinement_support()["seccomp"], reason="this kernel has no seccomp")
def test_release_is_written_by_a_confined_process(campaign, tmp_path):
    script = "from acapella.cli.main import main; print(main()); print(open('/proc/self/status').read())"
    words = ["release", campaign, "-o", tmp_path / "public", "--key-file", write_key(tmp_path / "key")]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert re.search(r"^0$", done.stdout, re.MULTILINE), done.stderr
    assert re.search(r"^Seccomp:\s+2$", done.stdout, re.MULTILINE)
    assert (tmp_path / "public" / "SHA256SUMS").is_file()


@pytest.mark.usefixtures("public")  # the release creates the key
def test_new_column_of_an_acap_or_table_is_not_released(campaign, tmp_path, monkeypatch):
    """A list without a column simulates a version with a new column."""
    listed, public = release_columns.published_columns, tmp_path / "public"
    fewer = {"frames": "tcp_seq", "flows": "psh", "frame_sizes": "share_lo", "metadata": "link_types"}
    for module in (release_columns, release, release_search):
        monkeypatch.setattr(module, "published_columns", lambda t: tuple(c for c in listed(t) if c != fewer.get(t)))
    monkeypatch.setattr(release_catalog.views, "VIEWS", ())  # view `frames` has column tcp_seq
    run("release", campaign, "-o", public, "--key-file", campaign / "release.key")
    for directory, table in (("acap", "frames"), ("flows", "flows")):
        for path in (public / directory).iterdir():
            assert set(pq.read_schema(path).names) == set(listed(table)) - {fewer[table]}
            assert "link_types" not in metadata_of(path)
    sizes, true = (pq.read_table(each / "tables" / "frame_sizes.parquet") for each in (public, campaign))
    assert sizes.to_pylist() == true.drop_columns("share_lo").to_pylist()


def test_original_captures_are_read_with_the_limits_of_the_command(created, tmp_path):
    part, (captures, *others) = created
    assert captures[0].limits.bytes == decompression.limits("7G", 10).bytes
    content = pa.compress(captures[0].original.read_bytes(), "zstd", asbytes=True)
    captures = [replace(captures[0], original=write_file(tmp_path / "true.pcap.zst", content)), captures[1]]
    release_search.check(part, captures, *others)
    with pytest.raises(UserError, match=rf"^sample {captures[0].sample}: ") as raised:
        release_search.check(part, [replace(captures[0], limits=decompression.limits("10K", 10))], *others)
    assert str(part) not in str(raised.value)
    assert str(raised.value).isprintable()


def in_catalog(statement: str, *parameters: str):
    """Return a change that executes a statement in the catalog."""

    def change(directory: Path) -> None:
        with duckdb.connect(str(directory / "catalog.duckdb")) as con:
            con.execute(statement, parameters)

    return change


def forget_table(directory: Path) -> None:
    content = json.loads((directory / "provenance" / "process.json").read_text())
    del content["outputs"]["tables/frame_sizes.parquet"]
    write_json(directory / "provenance" / "process.json", content)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (in_catalog("update stored.samples set sha256 = 'not hex'"), "sha256 'not hex' is not a SHA-256"),
        (forget_table, "frame_sizes.parquet: does not match the checksum in its"),
    ],
)
def test_damaged_catalog_or_provenance_is_reported_in_one_line(campaign, tmp_path, capsys, change, line):
    directory = shutil.copytree(campaign, tmp_path / "damaged")
    change(directory)
    assert line in failed(capsys, "release", directory, "-o", tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_release_is_synchronized_before_it_is_renamed(tmp_path, monkeypatch):
    part, target, done = tmp_path / ".part", tmp_path / "public", []
    table = write_file(part / "tables" / "a.csv", "a\n")
    inodes = {path.stat().st_ino for path in (part, table.parent, table)}
    rename = Path.rename
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(Path, "rename", lambda path, to: (done.append("rename"), rename(path, to))[1])
    release.publish(part, target)
    assert (set(done[:-2]), done[-2:]) == (inodes, ["rename", tmp_path.stat().st_ino])
    assert (target / "tables" / "a.csv").stat().st_mode & 0o777 == 0o644


def in_capture(offset: int, replacement: bytes):
    """Return a change that overwrites bytes of the first frame of the first capture."""

    def change(part: Path) -> None:
        with sorted((part / "captures").iterdir())[0].open("r+b") as stream:
            stream.seek(24 + 16 + offset)
            stream.write(replacement)

    return change


def in_text(name: str, text: str):
    """Return a change that appends a line to a file."""
    return lambda part: write_file(part / name, (part / name).read_bytes() + f"{text}\n".encode())


def in_croissant(key: str, value: str):
    """Return a change that sets a value in croissant.json."""

    def change(part: Path) -> None:
        path = part / "croissant.json"
        write_json(path, json.loads(path.read_text(encoding="utf-8")) | {key: value})

    return change


def in_column(table: str, column: str, value: str):
    """Return a change that sets a value in the first row of a released table."""

    def change(part: Path) -> None:
        path = [*sorted((part / table).glob("*")), part / f"{table}.parquet"][0]
        rows = pq.read_table(path)
        place = rows.schema.get_field_index(column)
        values = pa.array([value, *rows[column].to_pylist()[1:]], rows.schema.types[place])
        pq.write_table(rows.set_column(place, rows.schema.field(place), values), path)

    return change


in_readme = functools.partial(in_text, "README.md")
in_quality = functools.partial(in_column, "tables/capture_quality")


def test_unmodified_release_passes(created):
    release_search.check(created[0], *created[1])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(in_capture(26, bytes((192, 0, 2, 1))), "an original address", id="IPv4 address in a header"),
        pytest.param(in_capture(30, bytes((192, 0, 2, 1))), "an original address in a header", id="IPv4 other end"),
        pytest.param(in_capture(0, b"\2\0\0\0\0\1"), "an original address", id="MAC address in a header"),
        pytest.param(
            in_capture(14, frames(random.Random(0))[0][42:70]), "a run of payload", id="payload of another capture"
        ),
        pytest.param(in_readme("see 192.0.2.1."), "address 192.0.2.1", id="IPv4 address in a README"),
        pytest.param(in_text("samples.tsv", "2001:DB8:0::1"), "address 2001:DB8:0::1", id="IPv6 address in a sheet"),
        pytest.param(in_readme("(02-00-00-00-00-02)"), "address 02-00-00-00-00-02", id="MAC address in a README"),
        pytest.param(in_quality("method", "host 192.0.2.2"), "address 192.0.2.2", id="address in a table"),
        pytest.param(in_column("flows", "src", "192.0.2.2"), "address 192.0.2.2", id="address in a flow table"),
        pytest.param(
            in_catalog("update capture_quality set method = $1", "2001:db8::2"),
            "address 2001:db8::2",
            id="address in the catalog",
        ),
        pytest.param(in_text("config.yaml", "# 192.0.2.1"), "address 192.0.2.1", id="address in a config"),
        pytest.param(in_text("config.yaml", f"trials: {SITE}"), f"original name {SITE}", id="site in a config"),
        pytest.param(in_text("croissant.json", SITE), "croissant.json: the release would", id="site in croissant.json"),
        pytest.param(
            lambda part: write_file(part / "tables" / SITE / "x.txt", ""), f"original name {SITE}", id="directory"
        ),
        pytest.param(in_croissant("license", f"(c) {SITE}"), f"original name {SITE}", id="site in the license"),
        pytest.param(in_croissant("name", "192.0.2.1"), "address 192.0.2.1", id="address in croissant.json"),
        pytest.param(in_text("captures.tsv", f"S0-P0-0000\t{SITE}"), f"original name {SITE}", id="site in captures"),
        pytest.param(in_quality("site", SITE), f"original name {SITE}", id="site in a table"),
        pytest.param(in_readme("node:2001:db8::1"), "address 2001:db8::1", id="address after a name"),
        pytest.param(in_readme("a:b:192.0.2.1"), "address 192.0.2.1", id="IPv4 address after colons"),
        pytest.param(in_quality("method", "020000000001"), "address 0200000000", id="MAC address without colons"),
        pytest.param(in_readme("at 0200.0000.0002"), "address 0200.0000.0002", id="MAC address with dots"),
        pytest.param(in_text("samples.tsv", f"S0-P0-0000\t{SITE}"), f"original name {SITE}", id="site in a sheet"),
        pytest.param(in_readme(f"at {SITE}."), f"original name {SITE}", id="site in a README"),
        pytest.param(in_quality("method", f"of {SITE}"), f"original name {SITE}", id="site in another column"),
        pytest.param(in_quality("port", "p1"), "original name p1", id="port in a table"),
        pytest.param(in_quality("method", f"by {TEXT}"), "payload that also occurs in a text", id="payload in a table"),
        pytest.param(in_readme(TEXT[4:]), "payload that also occurs in a text", id="payload in a README"),
        pytest.param(in_quality("sample", SAMPLES[1]), f"original name {SAMPLES[1]}", id="sample in a table"),
    ],
)
def test_planted_leak_is_found(change, found, created, tmp_path):
    error = search_error(created, tmp_path, change)
    assert found in error
    assert "no release was created" in error
    assert "\n" not in error


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("3221225985 0xc0000201", id="IPv4 address as a number"),
        pytest.param(TEXT[:15], id="15 bytes of payload"),
        pytest.param("at p1.", id="name of two characters"),
    ],
)
def test_documented_limits_match_the_search(text, created, tmp_path):
    """docs/release.md states that the search does not find this text. If it does, update that document."""
    part = shutil.copytree(created[0], tmp_path / "part")
    in_readme(text)(part)
    release_search.check(part, *created[1])


def test_release_with_a_leak_is_not_published(campaign, tmp_path, monkeypatch, capsys):
    check, change = release_search.check, in_text("samples.tsv", "2001:DB8:0::1")
    monkeypatch.setattr(release_search, "check", lambda part, *rest: (change(part), check(part, *rest)))
    error = failed(capsys, "release", campaign, "-o", tmp_path / "public", "--key-file", campaign / "release.key")
    assert "address 2001:DB8:0::1" in error
    assert not list(tmp_path.iterdir())


def test_addresses_only_in_flow_tables_are_found(created, tmp_path):
    """The search does not depend on the list that the anonymization creates."""
    public, (captures, *rest) = created
    empty = [replace(capture, replaced=dict.fromkeys(capture.replaced, b"")) for capture in captures]
    assert "the original address 192.0.2.1" in search_error(
        (public, (empty, *rest)), tmp_path, in_readme("see 192.0.2.1")
    )


def test_planted_checksum_is_found(campaign, created, tmp_path):
    digest = hashlib.sha256((campaign / "acap" / f"{SAMPLES[0]}.parquet").read_bytes()).digest()
    encoded = (base64.b64encode(digest).decode(), base64.urlsafe_b64encode(digest).decode())
    changes = [in_readme(f"({form})") for form in (digest.hex(), digest.hex().upper(), *encoded)]
    for change in (*changes, in_quality("method", digest.hex()), in_capture(2, digest)):
        assert "the checksum of a file that is not published" in search_error(created, tmp_path, change)


def test_flow_with_its_original_hash_is_found(campaign, created, tmp_path):
    true = pq.read_table(campaign / "flows" / f"{SAMPLES[0]}.parquet")["community_id"][0].as_py()
    found = search_error(created, tmp_path, in_column("flows", "community_id", true))
    assert f"the hash of an original flow: {true}" in found


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("sha256", "string", "column sha256, which must not be published"),
        ("method", "binary", "bytes in column method, which cannot be searched"),
    ],
)
def test_unlisted_column_or_column_of_bytes_is_found(created, tmp_path, name, kind, found):
    def change(part: Path) -> None:
        path = part / "tables" / "capture_quality.parquet"
        rows = pq.read_table(path)
        kept = rows.select([column for column in rows.column_names if column != name])
        pq.write_table(kept.append_column(name, rows["sample"].cast(kind)), path)

    assert found in search_error(created, tmp_path, change)


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_samples_are_digested_by_their_engine_and_errors_name_the_sample(tmp_path, capsys):
    """One capture has frames of IEEE 802.11, which the core does not dissect, and the other has Ethernet."""
    wired, engines = frames(random)[0], {"wired": "native", "wifi": "hybrid"}
    wifi = bytes.fromhex("08010000 02aabbccdd01 02aabbccdd02 02aabbccdd03 1000 aaaa030000000800") + wired[14:]
    write_file(tmp_path / "wired.pcap", pcap([(len(wired), wired)], 1))
    write_file(tmp_path / "wifi.pcap", pcap([(len(wifi), wifi)], 105))
    campaign = indexed(tmp_path, [(name, "A", name, tmp_path / f"{name}.pcap") for name in engines], engines)
    run("release", campaign, "-o", tmp_path / "public")
    acaps = tmp_path / "public" / "acap"
    assert {sample: metadata_of(acaps / f"{sample}.parquet")["engine"] for sample in engines} == engines
    error = failed(capsys, "release", campaign, "-o", tmp_path / "other", "--engine", "native")
    assert error.startswith("acapella: error: sample wifi, engine native: captures/wifi.pcap: ")
    assert str(tmp_path) not in error


@pytest.mark.parametrize("name", ["../x", "a/b", "/etc/x", "a\nb", "..", "", "x\x1b[31m"])
@pytest.mark.parametrize("tables", ["stored.samples acaps", "stored.samples", "acaps", "file"])
def test_unsafe_names_in_a_catalog_are_rejected_in_one_line(tables, name, campaign, tmp_path, capsys):
    """A sample renamed in only one of the two tables is rejected as well, not omitted."""
    column, changed = ("file", ["stored.samples"]) if tables == "file" else ("sample", tables.split())
    copy = copied_catalog(campaign, tmp_path, column, changed, name)
    assert repr(name) in failed(capsys, "release", copy, "-o", tmp_path / "public")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]
    assert [path.name for path in copy.iterdir()] == ["catalog.duckdb"]


@pytest.mark.parametrize("table", ["stored.samples", "acaps"])
def test_sample_in_only_one_table_of_the_catalog_is_rejected(table, campaign, tmp_path, capsys):
    copy = copied_catalog(campaign, tmp_path, "sample", [table], "renamed")
    error = failed(capsys, "release", copy, "-o", tmp_path / "public")
    assert "samples and acaps of the catalog do not list the same samples" in error
    assert "run acapella campaign index" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]


def copied_catalog(campaign, tmp_path, column, tables, name):
    """Copy the catalog of a campaign, with a new name for the first sample or its file; return the new directory."""
    copy = new_directory(tmp_path / "copy")
    shutil.copyfile(campaign / "catalog.duckdb", copy / "catalog.duckdb")
    for table in tables:
        in_catalog(f"update {table} set {column} = $1 where sample = $2", name, SAMPLES[0])(copy)
    return copy
