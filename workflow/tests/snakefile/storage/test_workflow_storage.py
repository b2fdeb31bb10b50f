"""Runs the workflow on captures in an S3 storage, which moto emulates, and on a share, which is a directory."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.new_files import new_directory
from acapella_testing.requirements import require, require_programs
from acapella_testing.runs.s3_server import ENVIRONMENT, SECRET, S3Server, s3_server
from acapella_testing.runs.workflow_run import CAPTURES, Workplace, jobs

from acapella.cli.main import main
from acapella.flowreports import program
from acapella_core.files import sha256_of

SAMPLES = ("alpha-p1", "alpha-p2", "beta-p1")


class S3Captures:
    """The captures of .test/ in an S3 storage: one object has a SHA-256, one was sent in parts."""

    etag = "[0-9a-f]{32}-1"
    lost = (("s3://captures/lost.pcap", "no such object"), ("s3://none/lost.pcap", "no such bucket 'none'"))

    def __init__(self, server: S3Server):
        self._server = server
        self.config = {"capture_storage": {"endpoint_url": server.url, "retries": 0}}
        server.client.create_bucket(Bucket="captures")
        server.put("captures", "day 1/alpha-p1.pcap.gz", CAPTURES / "alpha-p1.pcap.gz", ChecksumAlgorithm="SHA256")
        server.put("captures", "day 1/alpha-p2.pcap.gz", CAPTURES / "alpha-p2.pcap.gz")
        put_parts(server.client, "day 1/beta-p1.pcap.gz", (CAPTURES / "beta-p1.pcap.gz").read_bytes())

    def query(self, name: str) -> str:
        return f"s3://captures/day 1/{name}.pcap.gz"

    def replace(self, name: str, file: Path) -> None:
        self._server.put("captures", f"day 1/{name}.pcap.gz", file)


class SharedCaptures:
    """The captures of .test/ in a directory: read-only files, one with a symbolic link."""

    etag = "[0-9]+-[0-9]{19}"

    def __init__(self, directory: Path):
        self._directory = new_directory(directory / "day 1")
        self.config = {}
        self.lost = ((f"fs:{directory}/lost.pcap", "no such file"), (f"fs:{directory}/day 1", "is not a file"))
        for name in SAMPLES:
            self.replace(name, CAPTURES / f"{name}.pcap.gz")
        (self._directory / "beta-p1.pcap.gz").rename(directory / "target")
        (self._directory / "beta-p1.pcap.gz").symlink_to("../target")

    def query(self, name: str) -> str:
        return f"fs:{self._directory}/{name}.pcap.gz"

    def replace(self, name: str, file: Path) -> None:
        target = self._directory / f"{name}.pcap.gz"
        target.unlink(missing_ok=True)
        shutil.copy2(file, target)  # with its modification time, so that a file that is restored has not changed
        target.chmod(0o444)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Captures]:
    """Return the captures in an S3 storage."""
    with s3_server() as running:
        yield S3Captures(running)


@pytest.fixture(scope="module")
def fs(tmp_path_factory) -> SharedCaptures:
    """Return the captures on a share."""
    require(importlib.util.find_spec("snakemake_storage_plugin_fs"), "no storage plugin fs")
    require_programs("rsync")
    return SharedCaptures(tmp_path_factory.mktemp("share"))


@pytest.fixture(scope="module", params=["s3", "fs"])
def storage(request) -> S3Captures | SharedCaptures:
    """Return the captures in each kind of storage."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def changed_object(storage):
    """Replace the object of alpha-p2 until the test ends."""
    storage.replace("alpha-p2", CAPTURES / "beta-p1.pcap.gz")
    yield
    storage.replace("alpha-p2", CAPTURES / "alpha-p2.pcap.gz")


def put_parts(client, key: str, content: bytes) -> None:
    """Store an object with a multipart upload, whose ETag is not an MD5."""
    at = {"Bucket": "captures", "Key": key}
    upload = at | {"UploadId": client.create_multipart_upload(**at)["UploadId"]}
    part = client.upload_part(**upload, PartNumber=1, Body=content)
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})


def stored_workplace(directory, storage, *more: tuple[str, str, str, str], **changes) -> Workplace:
    """Return a workplace whose sheet names the three objects, and ``more`` rows."""
    place = Workplace(directory, dict(ENVIRONMENT))
    place.configure(**storage.config, **changes)
    place.sheet(*((name, *name.split("-"), storage.query(name)) for name in SAMPLES), *more)
    return place


@pytest.fixture(scope="module")
def stored(storage, tmp_path_factory) -> Workplace:
    """Return a campaign of the three objects with its tables."""
    place = stored_workplace(tmp_path_factory.mktemp("stored"), storage)
    place.succeed("--cores", "2", "process")
    return place


def copies(place: Workplace) -> list[Path]:
    """Return the captures in the directory of a workplace."""
    return [path for path in place.directory.rglob("*.pcap*") if not path.is_dir()]


def test_results_of_captures_in_storage_equal_those_of_files(stored, finished):
    ours, theirs = (place.sha256("acap/*", "flows/*", "tables/*") for place in (stored, finished))
    assert {name for name in ours if name.startswith("acap/")} == {f"acap/{name}.parquet" for name in SAMPLES}
    assert ours.items() <= theirs.items()


def test_copies_of_captures_are_deleted(stored, storage):
    assert copies(stored) == []
    recorded = json.loads((stored.campaign / "raw" / "beta-p1.json").read_text())["storage"]
    assert recorded["query"] == storage.query("beta-p1")
    assert re.fullmatch(storage.etag, recorded["etag"])


def test_credentials_are_in_no_file_of_the_directory(stored):
    files = [path for path in stored.directory.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.usefixtures("changed_object")
def test_only_a_changed_object_is_fetched_and_digested_again(stored):
    planned = jobs(stored.succeed("--dry-run", "process"))
    assert (planned["collect"], planned["digest"], planned["analyze"]) == (1, 1, 1)


def extract(place: Workplace, output: Path) -> int:
    """Extract all frames of beta-p1; return the exit code."""
    words = ["--sample", "beta-p1", "--where", "true"]
    return main(["extract", str(place.campaign), "-o", str(output), *words])


@pytest.mark.parametrize("storage", ["s3"], indirect=True)
def test_commands_that_need_captures_name_the_object(stored, storage, tmp_path, capsys):
    place = stored.copy(tmp_path / "copy")
    assert main(["campaign", "check", str(place.campaign)]) == 0, capsys.readouterr()
    assert extract(place, tmp_path / "x.pcapng") == 2
    target = place.campaign / "raw" / "beta-p1.pcap.gz"
    assert capsys.readouterr().err.endswith(
        f"{storage.query('beta-p1')}: the capture of sample beta-p1 is in storage; copy it to {target}\n"
    )
    shutil.copy(CAPTURES / "beta-p1.pcap.gz", target)
    assert extract(place, tmp_path / "x.pcapng") == 0


@pytest.mark.parametrize("storage", ["fs"], indirect=True)
def test_captures_on_a_share_are_read_in_place(stored, storage, finished, tmp_path, capsys):
    """A copy in raw/ takes precedence. A file that has changed, or is missing, is an error."""
    place, share = stored.copy(tmp_path / "copy"), Path(storage.query("beta-p1").removeprefix("fs:"))
    assert main(["campaign", "check", str(place.campaign)]) == 0, capsys.readouterr()
    assert extract(place, tmp_path / "x.pcapng") == extract(finished, tmp_path / "y.pcapng") == 0
    assert sha256_of(tmp_path / "x.pcapng") == sha256_of(tmp_path / "y.pcapng")
    public = tmp_path / "public"
    assert main(["release", str(place.campaign), "-o", str(public)]) == 0, capsys.readouterr()
    assert {path.stem for path in (public / "captures").iterdir()} == set(SAMPLES)
    target, kept = place.campaign / "raw" / "beta-p1.pcap.gz", share.rename(share.with_name("kept"))
    try:
        for content, error in (
            (None, f"is not there; mount the share, or copy the capture to {target}"),
            (b"another", "has changed since the digest; run snakemake, which digests it again"),
        ):
            if content:
                share.write_bytes(content)
            assert extract(place, tmp_path / "z.pcapng") == 2
            expected = f"{storage.query('beta-p1')}: the capture of sample beta-p1 {error}\n"
            assert capsys.readouterr().err.endswith(expected)
        shutil.copy(CAPTURES / "beta-p1.pcap.gz", target)
        assert extract(place, tmp_path / "z.pcapng") == 0
    finally:
        kept.rename(share)


@pytest.mark.soak
@pytest.mark.parametrize("storage", ["s3"], indirect=True)
def test_release_needs_a_copy_of_each_object(stored, storage, tmp_path, capsys):
    place = stored.copy(tmp_path / "copy")
    words = ["release", str(place.campaign), "-o", str(tmp_path / "public")]
    for name in SAMPLES:
        assert main(words) == 2
        target = place.campaign / "raw" / f"{name}.pcap.gz"
        advice = f"the capture of sample {name} is in storage; copy it to {target}\n"
        assert capsys.readouterr().err == f"acapella: error: {storage.query(name)}: {advice}"
        shutil.copy(CAPTURES / target.name, target)
    assert main(words) == 0, capsys.readouterr()
    assert {path.stem for path in tmp_path.glob("public/captures/*")} == set(SAMPLES)


@pytest.mark.soak
def test_missing_objects_fail_only_their_samples(storage, tmp_path):
    """The others are fetched, including those for kappa, and their copies are deleted."""
    (query, fault), (other, other_fault) = storage.lost
    lost = [("4", "alpha", "p4", query), ("5", "alpha", "p5", other)]
    place = stored_workplace(tmp_path, storage, *lost, trials={"both": ["alpha-p1", "alpha-p2"]})
    targets = [f"results/tiny/{name}.json" for name in ("raw/4", "raw/alpha-p1", "kappa/both")]
    printed = place.fail("--keep-going", "--cores", "1", *targets)
    error = f"config/samples.tsv line 5: {query}: {fault}"
    assert f"warning: {error}; sample 4 will fail\n" in printed
    assert f"line 6: {other}: {other_fault}; sample 5 will fail\n" in printed
    assert f"\n  4: {error}\n" in printed, printed
    assert (place.campaign / "raw" / "alpha-p1.json").is_file()
    trials = json.loads((place.campaign / "kappa" / "both.json").read_text())["trials"]
    assert [file["sha256"] for trial in trials for file in trial["files"]] == [
        sha256_of(CAPTURES / f"{name}.pcap.gz") for name in SAMPLES[:2]
    ]
    assert copies(place) == []


@pytest.mark.soak
def test_campaign_is_completed_without_a_missing_object(storage, tmp_path):
    place = stored_workplace(tmp_path, storage, ("lost", "alpha", "p4", storage.lost[0][0]), missing="report")
    run = place.start("--cores", "2", "process", output=subprocess.PIPE)
    printed, _ = run.communicate()
    assert run.returncode == 0, printed
    assert "1 sample is missing from the tables, because its job failed: lost" in printed
    assert {*place.sha256("acap/*")} == {f"acap/{name}.parquet" for name in SAMPLES}
    assert copies(place) == []


@pytest.mark.soak
def test_batches_fetch_their_objects_and_process_those_that_changed(stored, storage, tmp_path, request):
    query, fault = storage.lost[0]
    lost = ("lost", "alpha", "p4", query)
    place = stored_workplace(tmp_path, storage, lost, batches={"samples": 2}, exclude=["beta-p1"])
    digests = [f"results/tiny/batches/digest/{batch}.tsv" for batch in ("b0001", "b0002")]
    assert f"\n  lost: config/samples.tsv line 5: {query}: {fault}\n" in place.fail(
        "--keep-going", "--cores", "1", *digests
    )
    assert place.sha256("acap/alpha*") == stored.sha256("acap/alpha*")
    assert copies(place) == []
    request.getfixturevalue("changed_object")
    place.succeed("--cores", "1", digests[0])
    assert Path(place.directory, digests[0]).read_text() == "sample\toutcome\nalpha-p1\tkept\nalpha-p2\tdone\n"


@pytest.mark.soak
@pytest.mark.parametrize("size", [1, 2])
def test_copies_are_deleted_before_more_captures_are_fetched_for_flow_reports(fs, tmp_path, size):
    require(program.why_unavailable() is None, "the P4 program cannot run")
    place = Workplace(tmp_path)
    place.configure(batches={"samples": size}, flowreports={"samples": "all"}, digest={"engine": "native"})
    names = [f"s{number}" for number in range(6)]
    place.sheet(*((name, "alpha", "p1", fs.query(name)) for name in names))
    for name in names:
        fs.replace(name, CAPTURES / "alpha-p1.pcap.gz")

    def fetched() -> list[Path]:
        walked = os.walk(tmp_path / ".snakemake" / "storage")  # ignores directories that are deleted meanwhile
        return [Path(directory, file) for directory, _, files in walked for file in files if file.endswith(".gz")]

    run, most = place.start("--cores", "1", "flowtables"), 0
    while run.poll() is None:
        most = max(most, len(fetched()))
        time.sleep(0.02)
    assert run.returncode == 0
    assert 0 < most <= 2 * size
    assert fetched() == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("changes", "target"),
    [({}, f"acap/{SAMPLES[0]}.parquet"), ({"batches": {"samples": 3}}, "batches/digest/b0001.tsv")],
    ids=["samples", "batches"],
)
def test_digest_of_an_object_is_taken_from_the_cache(stored, storage, tmp_path, changes, target):
    """S3 storage provides the SHA-256 of the first object, the key of its digest."""
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for name in ("first", "second"):
        place = stored_workplace(tmp_path / name, storage, digest={"cache": str(cache)}, **changes)
        place.succeed("--cores", "1", f"results/tiny/{target}")
        (log,) = place.campaign.glob(f"logs/digest/**/{SAMPLES[0]}.log")
        assert (f": from the cache {cache}" in log.read_text()) == (name == "second"), log
    assert place.sha256(f"acap/{SAMPLES[0]}*") == stored.sha256(f"acap/{SAMPLES[0]}*")


@pytest.mark.parametrize(
    ("changes", "keys", "line"),
    [
        ({}, dict.fromkeys(ENVIRONMENT, ""), "error: s3://captures/.*credentials; set AWS_ACCESS_KEY_ID"),
        (
            {"capture_storage": {"access_key": "k"}},
            {},
            "config error: config/config.yaml: capture_storage.access_key: unknown key",
        ),
        (
            {"capture_storage": {"endpoint_url": "http://127.0.0.1:1", "retries": 0}},
            {},
            "error: s3://captures/.*connect",
        ),
    ],
)
def test_storage_errors_are_one_line(s3, tmp_path, changes, keys, line):
    place = stored_workplace(tmp_path, s3)
    place.configure(**s3.config | changes)
    place.environment |= keys | {"AWS_EC2_METADATA_DISABLED": "true"}
    printed = place.fail("--dry-run")
    assert re.match(line, printed.splitlines()[-1]), printed
    assert "Traceback" not in printed
