"""acapella campaign check: what it reports about the directory of a third party."""

import hashlib
import json
import os
import re
import shutil
import time
from functools import partial
from pathlib import Path

import duckdb
import pytest
from acapella_testing.generated.tiny import add_sample
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.runs.stages import analyze_campaign
from acapella_testing.runs.workflow_run import ROOT

from acapella.cli import main as cli
from acapella.cli.check import MAX_BYTES, kind_of
from acapella.digest.cache import keep

CAPTURE = bytes(24)
SHA256 = hashlib.sha256(CAPTURE).hexdigest()
RELEASED = {"captures/S0.pcap": b"capture", "README.md": b"text", "tables/a.csv": b"a\n1\n"}


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    """Return a campaign of two samples with captures; a is a link to the user's capture, b a file. Tests copy it."""
    root = tmp_path_factory.mktemp("checked")
    directory = root / "made"
    for name in "ab":
        add_sample(directory, name, sha256=SHA256)
    write_file(directory / "raw" / "b.pcap", CAPTURE)
    (directory / "raw" / "a.pcap").symlink_to(write_file(root / "mine.pcap", CAPTURE))
    sheet = ("sample\tsite\tport\tfile", "a\tWEST\tp1\ta.pcap", "b\tWEST\tp1\tb.pcap", "")
    write_file(directory / "raw" / "samples.tsv", "\n".join(sheet))
    return analyze_campaign(directory)


@pytest.fixture
def directory(created, tmp_path):
    """Return a copy of the campaign."""
    return shutil.copytree(created, tmp_path / "copy", symlinks=True)


@pytest.fixture
def check(capsys):
    """Return a function that runs `acapella campaign check` and returns the exit code and the lines."""

    def run(directory):
        return cli.main(["campaign", "check", str(directory)]), capsys.readouterr().out.splitlines()

    return run


def test_unmodified_campaign_has_no_findings(directory, check):
    code, (line,) = check(directory)
    assert code == 0
    digests, tables = 2 * 4, 2 * len(list((directory / "tables").glob("*.csv")))  # capture, acap, flows, manifest
    assert line.startswith(f"{directory}: {digests + tables} files verified, 0 findings; ")


def test_campaign_of_an_earlier_version_is_verified(directory, check):
    """Its provenance file has a different name."""
    code, (before,) = check(directory)
    assert code == 0
    (directory / "provenance" / "process.json").rename(directory / "provenance.json")
    (directory / "provenance").rmdir()
    code, (line,) = check(directory)
    assert code == 0
    assert line.partition(";")[0] == before.partition(";")[0]
    append(directory / "tables/throughput.csv")
    code, lines = check(directory)
    assert code == 1
    assert lines[0].startswith("tables/throughput.csv: its SHA-256 differs from that in provenance.json; if this")


def test_replaced_provenance_of_an_earlier_version_is_not_verified(directory, check):
    shutil.copy(directory / "provenance" / "process.json", directory / "provenance.json")
    rewrite(directory / "provenance.json", outputs={"tables/throughput.csv": "0" * 64})
    code, lines = check(directory)
    assert (code, len(lines)) == (0, 1), lines


def test_linked_provenance_directory_is_not_read(directory, check, tmp_path):
    elsewhere = (directory / "provenance").rename(tmp_path / "elsewhere")
    (directory / "provenance").symlink_to(elsewhere)
    write_file(elsewhere / "process.json", "{")
    code, lines = check(directory)
    assert code == 1
    assert lines[0] == f"provenance: is a symbolic link to {elsewhere}"
    assert not any("cannot be read" in line for line in lines), lines


def test_records_of_failed_samples_are_files_of_the_workflow(directory, check):
    write_file(directory / "quarantine" / "c.json", "{}")
    write_file(directory / "quarantine" / "c.log", "{}")
    with (directory / "raw" / "samples.tsv").open("a") as sheet:
        sheet.write("c\tWEST\tp1\tc.pcap\n")
    assert cli.main(["campaign", "index", str(directory), "--failed", "c"]) == 0
    code, lines = check(directory)
    assert code == 0
    assert "failed samples 2" in lines[-1] and "other file" not in lines[-1]


def test_files_without_a_checksum_are_counted_by_kind_and_unknown_files_are_listed(directory, check):
    for name in (
        "figures/flow_sizes.svg",
        "figures/mine.svg",
        "report.html",
        "no\x1btes.txt",
        "tables/mine.csv",
        "acap/z.parquet",
    ):
        write_file(directory / name, "text")
    code, lines = check(directory)
    assert code == 1
    assert lines[0] == "no\\x1btes.txt: its name has control characters"
    assert sorted(lines[1:-1]) == [
        "acap/z.parquet: not verified: no catalog lists it",
        *(
            f"{name}: not verified: the workflow writes no such file"
            for name in ("figures/mine.svg", "no\\x1btes.txt", "tables/mine.csv")
        ),
    ]
    assert lines[-1].endswith("; 4 other files")
    assert "figures 1, " in lines[-1]
    assert "report 1" in lines[-1]
    counted = re.search(r"; (\d+) files that the workflow writes without a checksum \((.*)\)", lines[-1])
    assert int(counted[1]) == sum(map(int, re.findall(r" (\d+)", f" {counted[2]}")))


def test_outputs_of_rules_have_a_known_kind():
    """Acaps and flow tables have none, because a list contains their checksums. In a directory, only files have one."""
    wildcards = {"table": "frame_sizes", "figure": "flow_sizes", "suffix": "csv", "format": "svg", "batch": "b0001"}
    wildcards["file"] = "pairs.parquet"  # of flow reports
    written = re.findall(r'"<campaign>/([^"]+)"', "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk")))
    paths = {re.sub(r"{+(\w+)}+", lambda found: wildcards.get(found[1], "x1"), path) for path in written}
    assert len(paths) > 50
    assert kind_of("partial/x1/.snakemake_timestamp") == "partial"
    assert kind_of("partial/x1/mine.parquet") is None
    assert kind_of("partial/x1/quality.parquet") == "partial"
    assert kind_of("flowreports/_3f/x1/pairs.parquet") == kind_of("flowreports/x1/pairs.parquet") == "flow reports"
    assert kind_of("quarantine/3f/x1.json") == "failed samples"
    assert kind_of("benchmarks/flowreports/3f/x1.tsv") == "benchmarks"
    assert {path for path in paths if kind_of(path) is None} == {"acap/x1.parquet", "flows/x1.parquet", "partial/x1"}


def test_cache_entries_are_not_findings(directory, check, tmp_path):
    cache = new_directory(tmp_path / "cache")
    for number, output in enumerate(sorted((*directory.glob("acap/*"), *directory.glob("flows/*")))):
        keep(output, cache / f"{number:064x}_{output.parent.name}.parquet")
    assert (directory / "acap" / "a.parquet").is_symlink()
    assert check(directory)[0] == 0


def rewrite(path, **changes):
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("tampered", [False, True])
def test_departures_of_a_trial_are_verified(directory, check, tampered):
    names = {"departures": "b.departures.parquet", "recordings": "replayed.pcap"}
    for name in names.values():
        write_file(directory / "raw" / name, CAPTURE)
    rewrite(directory / "raw/b.json", replay={key: [{"file": name, "sha256": SHA256}] for key, name in names.items()})
    if tampered:
        append(directory / "raw/b.departures.parquet")
    _, lines = check(directory)
    assert [line for line in lines[:-1] if "departures" in line or "replayed" in line] == (
        ["raw/b.departures.parquet: its SHA-256 differs from that in raw/b.json"] if tampered else []
    )


def append(path, content=b"\0"):
    """Append bytes to a file, which is created if it is missing."""
    with path.open("ab") as file:
        file.write(content)


def link(path, target):
    """Replace a file or directory with a link."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def in_catalog(path, statement):
    """Change the catalog."""
    with duckdb.connect(str(path)) as con:
        con.execute(statement)


def test_damaged_digest_or_table_error_names_the_command_that_recreates_it(directory, check):
    recreated = {"acap/a.parquet": True, "tables/throughput.csv": True, "raw/b.pcap": False}
    for name in recreated:
        append(directory / name)
    code, lines = check(directory)
    assert code == 1
    fix = "delete the file and run snakemake, which creates it again"
    assert recreated.items() <= {line.split(": ")[0]: line.endswith(fix) for line in lines}.items()


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        pytest.param(
            "acap/a.parquet", append, r"acap/a.parquet: its SHA-256 differs from that", id="a byte more in an acap"
        ),
        pytest.param(
            "tables/throughput.csv",
            append,
            "tables/throughput.csv: its SHA-256 differs from that",
            id="a byte more in a table",
        ),
        pytest.param(
            "raw/b.pcap",
            append,
            "raw/b.pcap: its SHA-256 differs from that in raw/b.json",
            id="a byte more in a capture",
        ),
        pytest.param(
            "raw/b.json",
            partial(rewrite, run=7),
            "raw/b.json: its SHA-256 differs from that",
            id="another value in a manifest",
        ),
        pytest.param(
            "flows/a.parquet",
            Path.unlink,
            "flows/a.parquet: no such file",
            id="a missing flow table",
        ),
        pytest.param(
            "tables/throughput.csv",
            partial(link, target="/etc/hostname"),
            "tables/throughput.csv: is a symbolic link to /etc/hostname",
            id="a table that is a link",
        ),
        pytest.param(
            "logs", partial(link, target="/tmp"), "logs: is a symbolic link to /tmp", id="a directory that is a link"
        ),
        pytest.param(
            "acap/z.parquet",
            partial(link, target="/etc/passwd"),
            "acap/z.parquet: is a symbolic link",
            id="an acap that is a link",
        ),
        pytest.param(
            "raw/b.pcap",
            partial(link, target="/etc/passwd"),
            "raw/b.pcap: its SHA-256 differs from that",
            id="a capture elsewhere",
        ),
        pytest.param(
            "raw/b.json",
            partial(rewrite, file="../../x"),
            "raw/b.json: '../../x' is not the name of a file",
            id="a path in a manifest",
        ),
        pytest.param(
            "raw/samples.tsv",
            partial(append, content=b"../x\tWEST\tp1\tx.pcap\n"),
            "raw/samples.tsv line 4: sample '../x': only letters",
            id="a path in the sheet",
        ),
        pytest.param(
            "raw/failed.tsv",
            partial(append, content=b"sample\tsite\tport\twhy\nx\tWE\x1bST\tp1\tlost\n"),
            r"raw/failed.tsv line 2: name 'WE\x1bST' is empty",
            id="control characters in the list of failures",
        ),
        pytest.param(
            "raw/b.json",
            partial(rewrite, site="\x1b[2J"),
            r"raw/b.json: name '\x1b[2J' is empty",
            id="control characters in a site",
        ),
        pytest.param(
            "provenance/process.json",
            partial(rewrite, outputs={"tables/../../x": ""}),
            "provenance/process.json: 'tables/../../x' is not the path of a file in this directory",
            id="a path in the provenance",
        ),
        pytest.param(
            "provenance/process.json",
            append,
            "provenance/process.json: cannot be read as JSON: ",
            id="a provenance file that is not JSON",
        ),
        pytest.param(
            "tables/a\nb.csv",
            append,
            r"tables/a\nb.csv: its name has control characters",
            id="a name with a line break",
        ),
        pytest.param(
            "acap/a b.parquet", append, "acap/a b.parquet: is not the name of a sample: ", id="an invalid sample name"
        ),
        pytest.param(
            "acap/pipe",
            os.mkfifo,
            "acap/pipe: is neither a file nor a directory",
            id="a pipe",
        ),
        pytest.param(
            "raw/c.json",
            os.mkfifo,
            "raw/c.json: cannot be read as JSON: not a regular file",
            id="a pipe as manifest",
        ),
        pytest.param(
            "provenance/x.json",
            os.mkfifo,
            "provenance/x.json: cannot be read as JSON: not a regular file",
            id="a pipe as provenance",
        ),
        pytest.param(
            "provenance/x.json",
            partial(link, target="/dev/zero"),
            "provenance/x.json: cannot be read as JSON: ",
            id="a link as provenance",
        ),
        pytest.param(
            "catalog.duckdb",
            partial(in_catalog, statement="update stored.samples set sample = '../b' where sample = 'b'"),
            "catalog.duckdb: sample '../b': only letters",
            id="a path in the catalog",
        ),
        pytest.param("catalog.duckdb", partial(Path.write_text, data="text"), "catalog.duckdb: ", id="no database"),
    ],
)
def test_tampered_file_is_reported_in_one_line(file, change, expected, directory, check):
    change(directory / file)
    code, lines = check(directory)
    assert code == 1
    assert any(line.startswith(expected) for line in lines), lines
    assert all(line.isprintable() for line in lines)


def test_catalog_query_cannot_read_files_outside_the_campaign(directory, check, tmp_path):
    secret = write_file(tmp_path / "secret.csv", "sample,site,port\nsecret,x,y\n")
    in_catalog(directory / "catalog.duckdb", f"drop view samples; create view samples as from read_csv('{secret}')")
    code, lines = check(directory)
    assert code == 1
    assert any(line.startswith("catalog.duckdb: Permission Error") for line in lines), lines


@pytest.fixture
def released(tmp_path):
    """Write files like those of a release, with their checksums."""
    directory = tmp_path / "public"
    for name, content in RELEASED.items():
        write_file(directory / name, content)
        append(directory / "SHA256SUMS", f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode())
    return directory


def replace_samples(directory, statements) -> None:
    """Replace the table of samples in the catalog."""
    with duckdb.connect(directory / "catalog.duckdb") as con:
        kinds = dict(con.execute("select table_name, table_type from information_schema.tables").fetchall())
        con.execute(f"drop {kinds['samples'].removeprefix('BASE ')} samples; drop table if exists stored.samples")
        con.execute(statements)


@pytest.mark.parametrize(
    "query",
    [
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i::text, 'a', 'p' from n",
        "select i::text as sample, 'a' as site, 'p' as port from range(100000000000) t(i)",
    ],
    ids=["endless", "large"],
)
def test_view_in_place_of_a_table_is_not_read(directory, check, query):
    replace_samples(directory, f"create view samples(sample, site, port) as {query}")
    begin = time.monotonic()
    code, lines = check(directory)
    assert time.monotonic() - begin < 20
    assert code == 1
    assert "catalog.duckdb: has no table samples" in lines


def test_number_of_rows_read_from_a_catalog_is_limited(directory, check, monkeypatch):
    monkeypatch.setattr("acapella.cli.check.MAX_ROWS", 1)
    code, lines = check(directory)
    assert code == 1
    assert "catalog.duckdb: table samples has more than 1 rows" in lines


@pytest.mark.soak
def test_catalog_query_has_a_time_limit(directory, check, monkeypatch):
    """The query is slow because of a generated column, whose expression the catalog defines."""
    slow = "sample text generated always as (list_sum(range(i))::text)"
    rows = "insert into samples select 2000 + i % 100, 'a', 'p' from range(100000) t(i)"
    replace_samples(directory, f"create table samples(i int, site text, port text, {slow}); {rows}")
    monkeypatch.setattr("acapella.cli.check.MAX_S", 0.05)
    begin = time.monotonic()
    code, lines = check(directory)
    assert time.monotonic() - begin < 30
    assert code == 1
    assert any(line.startswith("catalog.duckdb: ") and "nterrupt" in line for line in lines), lines


@pytest.mark.parametrize("target", ["/proc/kmsg", "/dev/zero", "/sys/kernel/uevent_seqnum"])
def test_link_to_a_kernel_file_is_not_read(directory, check, target):
    link(directory / "raw/a.pcap", target)
    code, lines = check(directory)
    assert code == 1
    assert f"raw/a.pcap: is a link to {target}, not a file on a disk" in lines


def test_sparse_file_is_not_read(directory, check):
    (directory / "raw" / "b.pcap").write_bytes(CAPTURE)
    os.truncate(directory / "raw" / "b.pcap", 7 << 40)
    code, lines = check(directory)
    assert code == 1
    assert any(re.fullmatch(rf"raw/b\.pcap: has {7 << 40} bytes, of which \d+ are on the disk", line) for line in lines)


def test_release_is_verified_by_its_checksums(released, check):
    assert check(released) == (0, [f"{released}: 3 files verified, 0 findings"])
    append(released / "README.md")
    append(released / "tables/extra.csv")
    append(released / "SHA256SUMS", b"00  ../outside\n")
    code, lines = check(released)
    assert code == 1
    assert lines[:-1] == [
        "README.md: its SHA-256 differs from that in SHA256SUMS",
        "SHA256SUMS: '../outside' is not the path of a file in this directory",
        "tables/extra.csv: is not in SHA256SUMS",
    ]


def test_size_of_a_checksum_list_is_limited(released, check):
    os.truncate(released / "SHA256SUMS", MAX_BYTES + 1)
    code, lines = check(released)
    assert code == 1
    assert lines[0] == "SHA256SUMS: cannot be read: larger than 64 MiB"


def test_directory_that_is_not_a_campaign_is_rejected(tmp_path, capsys):
    assert cli.main(["campaign", "check", str(tmp_path)]) == 2
    assert "is neither a campaign nor a release" in capsys.readouterr().err
