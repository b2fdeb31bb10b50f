"""Tests that others get the same tables and figures from a release, and that differences are found."""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.generated.files_campaign import run
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.release_records import write_key
from acapella_testing.runs.other_environment import HOST, check_out, run_elsewhere, turkish, why_unavailable
from acapella_testing.runs.workflow_run import ROOT, Workplace, workplace

from acapella.cli.main import main
from acapella.flowreports import program
from acapella.release import reproducible

RECORD_HEADER, FILE_HEADER = 16, 24  # bytes of a pcap file
TRIALS = ROOT / ".test" / "trials"
KEYS = {"acap": ["frame"], "flows": ["flow_id"]}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Return a directory for the releases and places of these tests."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.fixture(scope="module")
def unrecorded(unrecorded_release) -> Path:
    """Return a release of the tiny campaign without results."""
    return unrecorded_release


@pytest.fixture(scope="module")
def first(recorded) -> tuple[Path, Workplace]:
    """Return a release with the results that were computed from it, and the directory of the run."""
    return recorded / "public", Workplace(recorded / "place")


DRAWN = "figures/.drawn.json"  # is not compared: it has checksums of the code


def sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of the files below a directory."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def listed(release: Path) -> dict[str, str]:
    """Return SHA256SUMS of a release."""
    return dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())


def published_results(release: Path) -> dict[str, str]:
    """Return the SHA-256 of the compared files of a release, by their paths in a campaign."""
    return {
        name.removeprefix("results/"): digest
        for name, digest in listed(release).items()
        if name.startswith(("acap/", "flows/", "results/tables/", "results/figures/"))
    }


def results_of(campaign: Path) -> dict[str, str]:
    """Return the SHA-256 of the compared files of a campaign."""
    return {
        name: digest
        for name, digest in sums(campaign).items()
        if name.split("/")[0] in ("acap", "flows", "tables", "figures") and name != DRAWN
    }


def test_release_contains_only_keys_that_determine_results(unrecorded):
    config = yaml.safe_load((unrecorded / "config.yaml").read_text())
    assert config.keys() <= {"analysis", "consistency", "digest", "figures", "flowreports", "trials"}
    assert config["figures"] == {"formats": ["svg"], "only": None}
    assert config["digest"] == {"engine": "hybrid"}
    sheet = [line.split("\t") for line in (unrecorded / "captures.tsv").read_text().splitlines()]
    assert sheet[0] == ["sample", "site", "port", "file", "start", "restriction"]
    assert [row[3] for row in sheet[1:]] == [f"captures/{name}.pcap" for name in ("alpha-p1", "alpha-p2", "beta-p1")]


def test_recorded_results_are_listed_in_the_checksums(first):
    release, place = first
    made = {f"results/{name}" for name in results_of(place.directory / "results" / "reproduced")}
    made = {name for name in made if name.startswith(("results/tables/", "results/figures/"))}
    others = ("results/versions.json", "results/workflow/", "results/raw/")
    recorded = {name for name in listed(release) if name.startswith("results/") and not name.startswith(others)}
    assert recorded == made != set()
    assert listed(release) == {name: digest for name, digest in sums(release).items() if name != "SHA256SUMS"}
    versions = json.loads((release / "results/versions.json").read_text())
    assert {"duckdb", "vl-convert-python", "tshark", "vendors"} <= versions.keys()


@pytest.fixture(scope="module")
def elsewhere(first, base) -> tuple[Path, str]:
    """Return the campaign of another user on another host, and the output of the run."""
    if reason := why_unavailable():
        pytest.skip(reason)
    checkout, place = check_out(base / "checkout of another user"), base / "elsewhere"
    place.mkdir()
    variables = turkish(base / "locales") | {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "4711"}
    ended = run_elsewhere(
        checkout, place, "--cores", "1", "reproduce", "--config", f"reproduce={first[0]}", "campaign=mine", **variables
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
    return place / "results" / "mine", ended.stdout


def test_different_user_host_locale_and_checkout_give_the_same_bytes(first, elsewhere):
    release, place = first
    campaign, printed = elsewhere
    assert f"Host: {HOST}" in printed
    theirs, ours = results_of(campaign), results_of(place.directory / "results" / "reproduced")
    assert theirs == ours
    assert len([name for name in theirs if name.startswith("figures/")]) > 5
    expected = published_results(release)
    assert {name: expected[name] for name in theirs} == theirs
    summary = (campaign / "reproduced.txt").read_text().splitlines()
    assert summary[-1] == f"all {len(theirs)} compared files are identical"


def test_results_contain_no_path_host_or_user(elsewhere):
    campaign, _ = elsewhere
    for name in results_of(campaign):
        content = (campaign / name).read_bytes()
        for word in (HOST, "guestuser", "elsewhere", str(ROOT), "Kathmandu"):
            assert word.encode() not in content, (name, word)


@pytest.fixture(scope="module")
def altered(first, base) -> tuple[Path, Path]:
    """Return a release in which one byte of a capture was changed, and the campaign computed from it."""
    release = shutil.copytree(first[0], base / "altered")
    capture = release / "captures" / "beta-p1.pcap"
    content = bytearray(capture.read_bytes())
    content[FILE_HEADER + 12] ^= 8  # length of the first frame on the wire
    capture.write_bytes(content)
    place = first[1].copy(base / "altered-place")
    ended = place.run("--cores", "2", "reproduce", "--config", f"reproduce={release}")
    assert ended.returncode == 1, ended.stdout[-3000:]
    return release, place.directory / "results" / "reproduced"


def test_release_without_captures_gives_the_same_tables_and_figures(first, base):
    release = shutil.copytree(first[0], base / "without captures")
    shutil.rmtree(release / "captures")
    (base / "from-acaps").mkdir()
    place = Workplace(base / "from-acaps")
    printed = place.succeed("--cores", "1", "reproduce", "--config", f"reproduce={release}")
    assert "will fail" not in printed
    campaign = place.directory / "results" / "reproduced"
    made, expected = results_of(campaign), published_results(release)
    assert made == expected
    lines = (campaign / "reproduced.txt").read_text().splitlines()
    assert "the release has no captures: results were made from its acaps and flow tables" in lines
    compared = [name for name in expected if name.startswith(("tables/", "figures/"))]
    assert lines[-1] == f"all {len(compared)} compared files are identical"


def naive_differences(name: str, published: Path, other: Path) -> set[tuple[str, str]]:
    """Return (file, column) of the differences between two Parquet files, by Python dictionaries."""
    table = (
        KEYS.get(name.split("/", maxsplit=1)[0])
        or yaml.safe_load((ROOT / "schemas" / "tables" / f"{published.stem}.yaml").read_text())["key"]
    )
    ours, theirs = (
        {tuple(row[column] for column in table): row for row in pq.read_table(path).to_pylist()}
        for path in (other, published)
    )
    found = {(name, "(rows)")} if ours.keys() ^ theirs.keys() else set()
    for key in ours.keys() & theirs.keys():
        found |= {(name, column) for column in ours[key] if ours[key][column] != theirs[key][column]}
    return found or {(name, "(bytes)")}  # called for files with different bytes: their metadata differ


def test_one_changed_byte_lists_exactly_the_affected_columns(altered):
    release, campaign = altered
    result = json.loads((campaign / "reproduced.json").read_text())
    expected = published_results(release)
    here = results_of(campaign)
    different = {name for name, digest in here.items() if digest != expected[name]}
    assert {name for name, state in result["files"].items() if state == "different"} == different
    oracle = set()
    for name in (name for name in different if name.endswith(".parquet")):
        published = release / (name if name[:4] in ("acap", "flow") else f"results/{name}")
        oracle |= naive_differences(name, published, campaign / name)
    found = {(row["file"], row["column"]) for row in result["differences"] if row["file"].endswith(".parquet")}
    assert found == oracle
    assert ("acap/beta-p1.parquet", "wire_len") in found
    assert not any("alpha" in file for file, _ in found)
    assert 5 < len(different) < len(here)


def test_summary_of_differences_names_the_changed_capture_and_first_rows(altered):
    _, campaign = altered
    lines = (campaign / "reproduced.txt").read_text().splitlines()
    assert "the release was altered: captures/beta-p1.pcap: changed" in lines
    assert re.fullmatch(r"\d+ of \d+ files differ", lines[-1])
    assert any("likely reason: captures/beta-p1.pcap was changed" in line for line in lines)
    (first_row,) = [line for line in lines if line.startswith("acap/beta-p1.parquet, wire_len: 1 row;")]
    assert "first: frame 1: " in first_row
    rows = [line.split("\t") for line in (campaign / "reproduced.tsv").read_text().splitlines()]
    assert Counter(len(row) for row in rows) == {4: len(rows)}


@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="a long test: run make soak")
@pytest.mark.parametrize("hidden", [False, True])
def test_trials_and_all_formats_are_reproduced_in_another_directory(base, hidden):
    """The campaign has a different engine than the tiny one, three environments, and figures in all formats."""
    if reason := why_unavailable():
        pytest.skip(reason)
    base = base / f"trials-{hidden}"
    base.mkdir()
    place = Workplace(base)
    trials = {"steady": ["a", "b"], "congested": ["a", "c"], "queues": [["a", "c"], "b"]}
    place.configure(trials=trials, digest={"engine": "native"}, pseudonyms=hidden, figures={})
    place.sheet(*((name, f"site-{name}", "uplink", str(TRIALS / f"{name}.pcap.gz")) for name in "abc"))
    place.succeed("--cores", "2")
    release = base / "public"
    run("release", place.campaign, "-o", release, "--key-file", write_key(base / "key"))
    made, elsewhere = Workplace(base / "made"), base / "elsewhere"
    made.directory.mkdir()
    made.succeed("--cores", "2", "record", "--config", f"reproduce={release}")
    names = {path.name for path in (release / "results" / "tables").iterdir()}
    assert {"consistency.parquet", "consistency_environments.csv"} <= names
    environments = pq.read_table(release / "results/tables/consistency_environments.parquet")["environment"].to_pylist()
    assert environments == (["E0", "E1", "E2"] if hidden else [*trials])
    elsewhere.mkdir()
    variables = turkish(base / "locales") | {"TZ": "America/St_Johns", "PYTHONHASHSEED": "12"}
    checkout = check_out(base / "checkout")
    ended = run_elsewhere(
        checkout, elsewhere, "--cores", "1", "reproduce", "--config", f"reproduce={release}", **variables
    )
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert results_of(elsewhere / "results" / "reproduced") == published_results(release)


@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="a long test: run make soak")
@pytest.mark.parametrize("hidden", [False, True])
def test_flow_reports_are_reproduced(base, hidden):
    if reason := program.why_unavailable():
        pytest.skip(reason)
    place = workplace(base / f"flowreports-{hidden}")
    place.configure(flowreports={"samples": ["beta-p1", "alpha-p1"], "sketch": "4x1024"}, pseudonyms=hidden)
    place.succeed("--cores", "2")
    release = place.directory / "public"
    run("release", place.campaign, "-o", release, "--key-file", write_key(place.directory / "key"))
    made, again = (Workplace(new_directory(place.directory / name)) for name in ("made", "again"))
    made.succeed("--cores", "2", "record", "--config", f"reproduce={release}")
    again.succeed("--cores", "1", "reproduce", "--config", f"reproduce={release}")
    tables = {path.stem for path in (release / "results" / "tables").iterdir()}
    assert {"flowreport_accuracy", "flowreport_flows"} <= tables and "flowreport_tools" not in tables
    accuracy = pq.read_table(release / "results/tables/flowreport_accuracy.parquet").to_pylist()
    assert len({row["sample"] for row in accuracy}) == 3, "two samples, and all"


def test_config_of_a_release_names_its_samples_with_flow_reports(tmp_path):
    samples = [SimpleNamespace(sample=name, name=f"S{n}-P0-0000") for n, name in enumerate("abc")]
    settings = {"sketch": "4x1024", "study": True, "samples": ["c", "a", "gone"], "threads": 2}
    reproducible.write_campaign_config(tmp_path, {"campaign": "mine", "flowreports": settings})
    config, notes = reproducible.released_config(tmp_path, samples, ["native"], hidden=True)
    assert config["flowreports"] == {"samples": ["S2-P0-0000", "S0-P0-0000"], "sketch": "4x1024"}
    assert notes == ["flow reports of samples that are not in the release (1)"]
    reproducible.write_campaign_config(tmp_path, {"flowreports": settings | {"samples": ["gone"]}})
    assert "flowreports" not in reproducible.released_config(tmp_path, samples, ["native"], hidden=True)[0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda release: (release / "config.yaml").write_text("testbed: fabric\n"), "key 'testbed' is not allowed"),
        (lambda release: (release / "config.yaml").write_text("campaign: mine\n"), "key 'campaign' is not allowed"),
        (
            lambda release: (release / "config.yaml").write_text("pathvars: {campaign: /home}\n"),
            "key 'pathvars' is not allowed",
        ),
        (
            lambda release: (release / "config.yaml").write_text("digest: {cache: /etc}\n"),
            "other keys of digest are not allowed",
        ),
        (
            lambda release: (release / "config.yaml").write_text("flowreports: {study: true}\n"),
            "other keys of flowreports are not allowed",
        ),
        (
            lambda release: (release / "captures.tsv").write_text("site\tport\tfile\na\tb\t../key\n"),
            "is outside of the release",
        ),
        (
            lambda release: (new_directory(release / "generated") / "hosts").symlink_to("/etc/hosts"),
            "is a link to a file outside of the release",
        ),
        (lambda release: (release / "config.yaml").unlink(), "no such file"),
    ],
)
def test_release_cannot_start_other_stages_or_read_other_files(unrecorded, tmp_path, change, complaint):
    release = shutil.copytree(unrecorded, tmp_path / "bad")
    change(release)
    ended = Workplace(tmp_path).run("--dry-run", "reproduce", "--config", f"reproduce={release}")
    assert ended.returncode == 1
    assert complaint in ended.stdout


@pytest.mark.parametrize("line", ["nonsense", f"{'0' * 64}  ../../etc/passwd", f"{'0' * 64}  /etc/passwd"])
def test_invalid_checksum_lists_are_rejected(unrecorded, tmp_path, capsys, line):
    release = shutil.copytree(unrecorded, tmp_path / "bad")
    (release / "SHA256SUMS").write_text(f"{line}\n")
    (tmp_path / "mine").mkdir()
    assert main(["campaign", "compare", str(tmp_path / "mine"), str(release)]) == 2
    assert "SHA256SUMS line 1" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "3"])
def test_invalid_versions_of_a_release_are_reported_in_one_line(tmp_path, capsys, text):
    path = write_file(tmp_path / "release" / "results" / "versions.json", text)
    write_file(
        tmp_path / "release" / "SHA256SUMS", f"{hashlib.sha256(path.read_bytes()).hexdigest()}  results/versions.json\n"
    )
    new_directory(tmp_path / "mine")
    assert main(["campaign", "compare", str(tmp_path / "mine"), str(tmp_path / "release")]) == 2
    error = capsys.readouterr().err
    assert f"{path}: cannot read: " in error
    assert error.count("\n") == 1
