"""Tests that others get the same tables and figures from a release, and that differences are found."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.release_records import changed_columns, checksums_of, published, reported_columns
from acapella_testing.requirements import skip_if
from acapella_testing.runs.other_environment import HOST, check_out, run_elsewhere, turkish, why_unavailable
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import ROOT, Workplace, workplace
from acapella_testing.soak import takes_minutes

from acapella.flowreports import program
from acapella.release import reproducible
from acapella_core import schemas
from acapella_core.files import sha256_of

RECORD_HEADER, FILE_HEADER = 16, 24  # bytes of a pcap file
TRIALS = ROOT / ".test" / "trials"
KEYS = {"acap": ["frame"], "flows": ["flow_id"]}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """Return a directory for the releases and places of these tests."""
    return tmp_path_factory.mktemp("reproduce")


DRAWN = "figures/.drawn.json"  # is not compared: it has checksums of the code


def sums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of the files below a directory."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): sha256_of(path) for path in files}


def published_results(release: Path) -> dict[str, str]:
    """Return the SHA-256 of the compared files of a release, by their paths in a campaign."""
    compared = ("acap/", "flows/", "results/tables/", "results/figures/")  # not the other tables of the release
    found = {name: sha for name, sha in checksums_of(release).items() if name.startswith(compared)}
    return {name.removeprefix("results/"): sha for name, sha in found.items()}


def results_of(campaign: Path) -> dict[str, str]:
    """Return the SHA-256 of the compared files of a campaign."""
    compared = ("acap/", "flows/", "tables/", "figures/")
    return {name: sha for name, sha in sums(campaign).items() if name.startswith(compared) and name != DRAWN}


@pytest.mark.soak
def test_release_contains_only_keys_that_determine_results(unrecorded_release):
    config = yaml.safe_load((unrecorded_release / "config.yaml").read_text())
    assert config.keys() <= {"analysis", "consistency", "digest", "figures", "flowreports", "trials"}
    assert config["figures"] == {"formats": ["svg"], "only": None}
    assert config["digest"] == {"engine": "hybrid"}
    sheet = read_rows(unrecorded_release / "captures.tsv")
    assert [*sheet[0]] == ["sample", "site", "port", "file", "start", "restriction"]
    assert [row["file"] for row in sheet] == [f"captures/{name}.pcap" for name in ("alpha-p1", "alpha-p2", "beta-p1")]


def test_recorded_results_are_listed_in_the_checksums(recorded):
    release, compared = recorded / "public", ("results/tables/", "results/figures/")
    made = {f"results/{name}" for name in results_of(recorded / "place/results/reproduced")}
    others = ("results/versions.json", "results/workflow/", "results/raw/")
    listed = checksums_of(release)
    published = {name for name in listed if name.startswith("results/") and not name.startswith(others)}
    assert published == {name for name in made if name.startswith(compared)} != set()
    assert listed == {name: digest for name, digest in sums(release).items() if name != "SHA256SUMS"}
    versions = json.loads((release / "results/versions.json").read_text())
    assert {"duckdb", "vl-convert-python", "tshark", "vendors"} <= versions.keys()


def reproduced_elsewhere(base: Path, release: Path, time_zone: str) -> tuple[Path, str]:
    """Return the campaign that another user computes on another host from a release, and the output of the run."""
    skip_if(why_unavailable())
    checkout, place = check_out(base / "checkout of another user"), new_directory(base / "elsewhere")
    variables = turkish(base / "locales") | {"TZ": time_zone, "PYTHONHASHSEED": "4711"}
    words = ("--cores", "1", "reproduce", "--config", f"reproduce={release}", "campaign=mine")
    ended = run_elsewhere(checkout, place, *words, **variables)
    assert ended.returncode == 0, ended.stdout[-4000:]
    return place / "results" / "mine", ended.stdout


@pytest.fixture(scope="module")
def elsewhere(recorded_release, base) -> tuple[Path, str]:
    """Return the campaign of another user on another host, and the output of the run."""
    return reproduced_elsewhere(base, recorded_release, "Asia/Kathmandu")


@pytest.mark.soak
def test_different_user_host_locale_and_checkout_give_the_same_bytes(recorded, elsewhere):
    campaign, printed = elsewhere
    assert f"Host: {HOST}" in printed
    theirs = results_of(campaign)
    assert theirs == results_of(recorded / "place/results/reproduced")
    assert len([name for name in theirs if name.startswith("figures/")]) > 5
    assert theirs.items() <= published_results(recorded / "public").items()
    summary = (campaign / "reproduced.txt").read_text().splitlines()
    assert summary[-1] == f"all {len(theirs)} compared files are identical"


@pytest.mark.soak
def test_results_contain_no_path_host_or_user(elsewhere):
    content = b"".join((elsewhere[0] / name).read_bytes() for name in results_of(elsewhere[0]))
    assert not [word for word in (HOST, "guestuser", "elsewhere", str(ROOT), "Kathmandu") if word.encode() in content]


@pytest.fixture(scope="module")
def altered(recorded, base) -> tuple[Path, Path]:
    """Return a release in which one byte of a capture was changed, and the campaign computed from it."""
    release = shutil.copytree(recorded / "public", base / "altered")
    content = bytearray((release / "captures" / "beta-p1.pcap").read_bytes())
    content[FILE_HEADER + 12] ^= 8  # length of the first frame on the wire
    (release / "captures" / "beta-p1.pcap").write_bytes(content)
    place = Workplace(recorded / "place").copy(base / "altered-place")
    ended = place.run("--cores", "2", "reproduce", "--config", f"reproduce={release}")
    assert ended.returncode == 1, ended.stdout[-3000:]
    return release, place.directory / "results" / "reproduced"


def test_release_without_captures_gives_the_same_tables_and_figures(recorded_release, base):
    release = shutil.copytree(recorded_release, base / "without", ignore=shutil.ignore_patterns("captures"))
    place = Workplace(new_directory(base / "from-acaps"))
    assert "will fail" not in place.succeed("--cores", "1", "reproduce", "--config", f"reproduce={release}")
    campaign, expected = place.directory / "results" / "reproduced", published_results(release)
    assert results_of(campaign) == expected
    lines = (campaign / "reproduced.txt").read_text().splitlines()
    assert "the release has no captures: results were computed from its acaps and flow tables" in lines
    compared = sum(name.startswith(("tables/", "figures/")) for name in expected)
    assert lines[-1] == f"all {compared} compared files are identical"


@pytest.mark.soak
def test_one_changed_byte_lists_exactly_the_affected_columns(altered):
    release, campaign = altered
    result = json.loads((campaign / "reproduced.json").read_text())
    expected, here = published_results(release), results_of(campaign)
    different = {name for name, digest in here.items() if digest != expected[name]}
    assert {name for name, state in result["files"].items() if state == "different"} == different
    oracle = set()
    for name in (name for name in different if name.endswith(".parquet")):
        published = release / (name if name.startswith(("acap/", "flows/")) else f"results/{name}")
        key = KEYS.get(name.partition("/")[0]) or schemas.table(published.stem)["key"]
        tables = (pq.read_table(path).to_pylist() for path in (campaign / name, published))
        oracle |= changed_columns(name, key, *tables) or {(name, "(bytes)")}  # only the metadata differ
    found = {(row["file"], row["column"]) for row in result["differences"] if row["file"].endswith(".parquet")}
    assert found == oracle == reported_columns(campaign)
    assert ("acap/beta-p1.parquet", "wire_len") in found
    assert not any("alpha" in file for file, _ in found)
    assert 5 < len(different) < len(here)


@pytest.mark.soak
def test_summary_of_differences_names_the_changed_capture_and_first_rows(altered):
    lines = (altered[1] / "reproduced.txt").read_text().splitlines()
    assert "the release was altered: captures/beta-p1.pcap: changed" in lines
    assert re.fullmatch(r"\d+ of \d+ files differ", lines[-1])
    assert any("likely reason: captures/beta-p1.pcap was changed" in line for line in lines)
    (first_row,) = [line for line in lines if line.startswith("acap/beta-p1.parquet, wire_len: 1 row;")]
    assert "first: frame 1: " in first_row
    assert {line.count("\t") for line in (altered[1] / "reproduced.tsv").read_text().splitlines()} == {3}


@takes_minutes
@pytest.mark.parametrize("hidden", [False, True])
def test_trials_and_all_formats_are_reproduced_in_another_directory(tmp_path, hidden):
    """The campaign has a different engine than the tiny one, three environments, and figures in all formats."""
    place, made = Workplace(tmp_path / "place"), Workplace(new_directory(tmp_path / "made"))
    trials = {"steady": ["a", "b"], "congested": ["a", "c"], "queues": [["a", "c"], "b"]}
    place.configure(trials=trials, digest={"engine": "native"}, pseudonyms=hidden, figures={})
    place.sheet(*((name, f"site-{name}", "uplink", str(TRIALS / f"{name}.pcap.gz")) for name in "abc"))
    place.succeed("--cores", "2")
    release = published(place.campaign)
    made.succeed("--cores", "2", "record", "--config", f"reproduce={release}")
    names = {path.name for path in (release / "results" / "tables").iterdir()}
    assert {"consistency.parquet", "consistency_environments.csv"} <= names
    environments = pq.read_table(release / "results/tables/consistency_environments.parquet")["environment"].to_pylist()
    assert environments == (["E0", "E1", "E2"] if hidden else [*trials])
    campaign, _ = reproduced_elsewhere(tmp_path, release, "America/St_Johns")
    assert results_of(campaign) == published_results(release)


@takes_minutes
@pytest.mark.parametrize("hidden", [False, True])
def test_flow_reports_are_reproduced(tmp_path, hidden):
    skip_if(program.why_unavailable())
    place = workplace(tmp_path / "place")
    place.configure(flowreports={"samples": ["beta-p1", "alpha-p1"], "sketch": "4x1024"}, pseudonyms=hidden)
    place.succeed("--cores", "2")
    release = published(place.campaign)
    made, again = (Workplace(new_directory(tmp_path / name)) for name in ("made", "again"))
    made.succeed("--cores", "2", "record", "--config", f"reproduce={release}")
    again.succeed("--cores", "1", "reproduce", "--config", f"reproduce={release}")
    tables = {path.stem for path in (release / "results" / "tables").iterdir()}
    assert {"flowreport_accuracy", "flowreport_flows"} <= tables
    assert "flowreport_tools" not in tables
    assert len({row["sample"] for row in rows(release / "results", "flowreport_accuracy")}) == 3, "two samples, and all"


def test_config_of_a_release_names_its_samples_with_flow_reports(tmp_path):
    samples = [SimpleNamespace(sample=name, name=f"S{n}-P0-0000") for n, name in enumerate("abc")]
    settings = {"sketch": "4x1024", "study": True, "samples": ["c", "a", "gone"], "threads": 2}
    reproducible.write_campaign_config(tmp_path, {"campaign": "mine", "flowreports": settings})
    config, notes = reproducible.released_config(tmp_path, samples, ["native"], hidden=True)
    assert config["flowreports"] == {"samples": ["S2-P0-0000", "S0-P0-0000"], "sketch": "4x1024"}
    assert notes == ["flow reports of samples that are not in the release (1)"]
    reproducible.write_campaign_config(tmp_path, {"flowreports": settings | {"samples": "all"}}, ["b"])
    config, notes = reproducible.released_config(tmp_path, samples, ["native"], hidden=True)
    assert (config["flowreports"]["samples"], notes) == (["S0-P0-0000", "S2-P0-0000"], [])
    reproducible.write_campaign_config(tmp_path, {"flowreports": settings | {"samples": ["gone"]}})
    assert "flowreports" not in reproducible.released_config(tmp_path, samples, ["native"], hidden=True)[0]


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("config.yaml", "testbed: fabric\n", "key 'testbed' is not allowed"),
        ("config.yaml", "campaign: mine\n", "key 'campaign' is not allowed"),
        ("config.yaml", "pathvars: {campaign: /home}\n", "key 'pathvars' is not allowed"),
        ("config.yaml", "digest: {cache: /etc}\n", "other keys of digest are not allowed"),
        ("config.yaml", "flowreports: {study: true}\n", "other keys of flowreports are not allowed"),
        ("captures.tsv", "site\tport\tfile\na\tb\t../key\n", "is outside of the release"),
        ("generated/hosts", "/etc/hosts", "is a link to a file outside of the release"),
        ("config.yaml", None, "no such file"),
    ],
)
def test_release_cannot_start_other_stages_or_read_other_files(unrecorded_release, tmp_path, file, text, complaint):
    release = shutil.copytree(unrecorded_release, tmp_path / "bad")
    (release / file).unlink(missing_ok=True)
    if text and text.startswith("/"):
        (new_directory(release / "generated") / "hosts").symlink_to(text)
    elif text:
        write_file(release / file, text)
    ended = Workplace(tmp_path).run("--dry-run", "reproduce", "--config", f"reproduce={release}")
    assert ended.returncode == 1
    assert complaint in ended.stdout


@pytest.mark.parametrize("line", ["nonsense", f"{'0' * 64}  ../../etc/passwd", f"{'0' * 64}  /etc/passwd"])
def test_invalid_checksum_lists_are_rejected(unrecorded_release, tmp_path, capsys, line):
    release = shutil.copytree(unrecorded_release, tmp_path / "bad")
    write_file(release / "SHA256SUMS", f"{line}\n")
    assert "SHA256SUMS line 1" in failed(capsys, "campaign", "compare", new_directory(tmp_path / "mine"), release)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "3"])
def test_invalid_versions_of_a_release_are_reported_in_one_line(tmp_path, capsys, text):
    path = write_file(tmp_path / "release" / "results" / "versions.json", text)
    write_file(tmp_path / "release" / "SHA256SUMS", f"{sha256_of(path)}  results/versions.json\n")
    error = failed(capsys, "campaign", "compare", new_directory(tmp_path / "mine"), tmp_path / "release")
    assert f"{path}: cannot read: " in error
