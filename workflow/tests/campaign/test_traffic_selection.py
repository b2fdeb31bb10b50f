"""Compares the samples that count in traffic statistics with the naive reference: trials, filters, P4 programs,
sampling.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from acapella_testing.generated.synthetic import make_campaign
from acapella_testing.generated.tiny import add_sample
from acapella_testing.oracles import naive_samples, naive_tables
from acapella_testing.oracles.table_agreement import assert_equal
from acapella_testing.runs.stages import analyze_campaign, catalog_rows, rows

from acapella.campaign import process
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli

README = Path(__file__).resolve().parents[3] / "README.md"
PROGRAM = {"program": "preprocess.spec", "control_sha256": None, "not_sent": {}}


def in_sheet(**restrictions) -> dict:
    """Return the keys of a manifest for restrictions in the sample sheet, with their details."""
    listed = [{"reason": reason, "detail": detail} for reason, detail in restrictions.items()]
    return {"testbed": "files", "one_in": None, "restrictions": listed}


KINDS = {
    "plain": {},
    "trial": {"environment": "quiet", "trial": 1, "replayed_frames": 100, "filter": "ether src 02:00:00:00:00:01"},
    "replayed": {"replayed_frames": 100},
    "filter": {"filter": "tcp  port 443"},
    "program": {"p4": PROGRAM},
    "p4": {"method": "fpga", "p4": PROGRAM},
    "sampling": {"one_in": 10, "one_in_by": "count", "sampled_out": 900},
    "both": {"filter": "udp", "one_in": 3, "one_in_by": "hash", "sampled_out": 2},
    "sheet trial": in_sheet(trial=None),
    "sheet filter": in_sheet(sampling="50", filter="tcp port 80"),
    "sheet words": in_sheet(sampling=None, p4=None, filter=None),
}
MIXED = ("plain", "trial", "filter", "p4", "sampling", "both", "replayed", "program", "plain")


def restricted(directory, kinds):
    """Return a campaign of these kinds of samples in turn, four at each site, and {sample: kind}."""
    directory = make_campaign(directory / "made_up", sites=(len(kinds) + 3) // 4, frames=60, flows=30, samples=2)
    kind_of = {}
    for number, path in enumerate(sorted((directory / "raw").glob("*.json"))):
        kind = kind_of[path.stem] = kinds[number % len(kinds)]
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest |= {"testbed": "local", "filter": None, "one_in": 1, "sampled_out": None} | KINDS[kind]
        path.write_text(json.dumps(manifest), encoding="utf-8")
    return directory, kind_of


@pytest.fixture(
    scope="module",
    params=[  # the kinds of the samples, and those that count
        pytest.param((MIXED, {"plain"}), id="mixed"),
        pytest.param(
            (("filter", "trial", "sampling", "p4", "both"), {"filter", "sampling", "p4", "both"}),
            id="no unfiltered sample",
        ),
        pytest.param(
            (("sheet trial", "sheet filter", "sheet words"), {"sheet filter", "sheet words"}), id="only sheet"
        ),
        pytest.param((("trial",), {"trial"}), id="only trials"),
        pytest.param((("plain", "sheet trial", "sheet filter", "sheet words"), {"plain"}), id="sample sheet"),
    ],
)
def selected(request, tmp_path_factory):
    """Return the directory of a campaign with its tables, {sample: kind}, and the kinds of the samples that count."""
    kinds, counting = request.param
    directory, kind_of = restricted(tmp_path_factory.mktemp("selected"), kinds)
    return analyze_campaign(directory), kind_of, counting


def oracle(directory):
    """Return the naive samples. Whitespace in filters is normalized as in the tables."""
    samples = naive_samples.read_campaign(directory)
    for sample in samples:
        sample.manifest["filter"] = " ".join((sample.manifest["filter"] or "").split())
    return samples


@pytest.fixture(scope="module")
def reference(selected):
    """Return the naive samples of `selected`."""
    return oracle(selected[0])


@pytest.mark.parametrize("name", sorted(naive_tables.TABLES))
def test_tables_of_selected_samples_equal_the_naive_reference(selected, reference, name):
    assert_equal(name, selected[0], reference)


def test_only_the_least_restricted_samples_count(selected):
    directory, kind_of, counting = selected
    assert {row["sample"] for row in rows(directory, "capture_quality") if row["excluded"] is None} == {
        sample for sample, kind in kind_of.items() if kind in counting
    }


def test_query_in_the_readme_returns_the_frames_of_the_tables(selected):
    directory, *_ = selected
    (query,) = re.findall(r'acapella sql results/<campaign> "([^"]+)"', README.read_text(encoding="utf-8"))
    expected, found = Counter(), Counter()
    for row in [row for row in rows(directory, "capture_quality") if row["excluded"] is None]:
        expected[row["site"]] += row["frames"]
    for site, _, frames in catalog_rows(directory, query):
        found[site] += frames
    assert found == expected


@pytest.mark.parametrize("table", ["flows", "stacks"])
def test_catalog_excludes_the_samples_that_the_tables_exclude(selected, table):
    directory, *_ = selected
    quality = {row["sample"]: row["excluded"] for row in rows(directory, "capture_quality")}
    found = dict(catalog_rows(directory, f"select distinct sample, excluded from {table}"))
    assert found == {sample: quality[sample] for sample in found}
    assert len(found) > 1


def test_quality_names_each_restriction(selected):
    directory, kind_of, _ = selected
    names = {"plain": None, "trial": "trial, filter", "both": "filter, sampling", "sheet trial": "trial"}
    names |= {"sheet filter": "filter, sampling", "sheet words": "filter, p4, sampling"}
    names |= {"replayed": "trial", "program": "p4", "filter": "filter", "p4": "p4", "sampling": "sampling"}
    for row in rows(directory, "capture_quality"):
        assert row["restriction"] == names[kind_of[row["sample"]]]
        assert row["excluded"] in (None, row["restriction"])


@pytest.mark.soak
def test_empty_sample_excludes_no_other_sample(tmp_path):
    add_sample(tmp_path, "empty", flows=[])
    add_sample(tmp_path, "filtered", filter="tcp")
    directory = analyze_campaign(tmp_path)
    counted = [row["sample"] for row in rows(directory, "capture_quality") if row["excluded"] is None]
    assert counted == ["empty", "filtered"] == [sample.name for sample in naive_samples.traffic(oracle(directory))]
    assert {row["frames"] for row in rows(directory, "header_depth")} == {2}


@pytest.fixture(scope="module")
def with_all(tmp_path_factory):
    """Return the directory and the naive samples of a mixed campaign in which all samples count."""
    directory, _ = restricted(tmp_path_factory.mktemp("all"), MIXED)
    return analyze_campaign(directory, choice={"traffic": "all"}), oracle(directory)


@pytest.mark.parametrize("name", sorted(naive_tables.TABLES))
def test_traffic_all_includes_all_samples(with_all, name):
    assert_equal(name, *with_all, "all")


@pytest.mark.soak
def test_samples_that_the_config_names_as_trials_do_not_count(tmp_path):
    directory, kind_of = restricted(tmp_path, ("plain",))
    samples, names = oracle(directory), sorted(kind_of)[:3]
    analyze_campaign(directory, choice={"trials": names})
    for sample in samples:
        sample.trial = sample.name in names
    for name in naive_tables.TABLES:
        assert_equal(name, directory, samples)
    assert [row["sample"] for row in rows(directory, "capture_quality") if row["excluded"] == "trial"] == names


@pytest.mark.soak
def test_index_reports_excluded_samples(tmp_path, capsys):
    directory, kind_of = restricted(tmp_path, (*MIXED, "trial"))
    assert cli.main(["campaign", "index", str(directory)]) == 0
    printed = capsys.readouterr().out
    trials = [len(s.frames) for s in oracle(directory) if kind_of[s.name] == "trial"]
    assert f"{len(trials)} samples ({sum(trials)} frames) excluded from traffic statistics: trial, filter\n" in printed
    assert cli.main(["campaign", "index", str(directory), "--traffic", "all"]) == 0
    assert "excluded from traffic" not in capsys.readouterr().out


def test_catalog_gives_the_reason_of_each_excluded_sample(tmp_path, capsys):
    directory, kind_of = restricted(tmp_path, ("plain", "trial", "sampling"))
    assert cli.main(["campaign", "index", str(directory), "--exclude", min(kind_of)]) == 0
    capsys.readouterr()
    assert cli.main(["sql", str(directory), "select sample, excluded from samples", "--format", "json"]) == 0
    found = {row["sample"]: row["excluded"] for row in json.loads(capsys.readouterr().out)}
    reasons = {"plain": None, "trial": "trial, filter", "sampling": "sampling"}
    assert found == {sample: reasons[kind] for sample, kind in kind_of.items()} | {min(kind_of): "config"}


def test_frames_not_excluded_by_the_catalog_match_the_tables(selected, capsys):
    directory, *_ = selected
    counts = "sum(('TCP' in split(stack, '/'))::int) as tcp, count(*) as frames"
    query = f"select {counts} from frames where excluded is null"
    assert cli.main(["sql", str(directory), query, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    (row,) = [r for r in rows(directory, "header_occurrence") if (r["site"], r["header"]) == ("all", "TCP")]
    assert (found["tcp"], found["frames"]) == (row["frames"], row["total_frames"])


def check_provenance(directory, excluded_samples: int) -> None:
    """Check that the provenance lists the excluded samples, with the names and reasons of the tables."""
    excluded = {row["sample"]: row["excluded"] for row in rows(directory, "capture_quality") if row["excluded"]}
    assert json.loads((directory / "provenance" / "process.json").read_text(encoding="utf-8"))["excluded"] == excluded
    assert len(excluded) == excluded_samples


def test_provenance_lists_excluded_samples_with_reasons(selected):
    directory, kind_of, counting = selected
    check_provenance(directory, sum(kind not in counting for kind in kind_of.values()))


@pytest.mark.soak
def test_pseudonyms_hide_the_expression_of_a_filter(tmp_path):
    directory, kind_of = restricted(tmp_path, ("filter", "trial"))
    analyze_campaign(directory, hide=True)
    assert {row["detail"] for row in rows(directory, "restrictions")} == {None}
    assert {row["restriction"] for row in rows(directory, "restrictions")} == {"filter", "trial, filter"}
    check_provenance(directory, sum(kind == "trial" for kind in kind_of.values()))


@pytest.mark.soak
def test_partial_tables_of_excluded_samples_are_not_read(tmp_path):
    add_sample(tmp_path, "plain")
    add_sample(tmp_path, "trial", **KINDS["trial"])
    directory = analyze_campaign(tmp_path, alone=True)
    before = rows(directory, "header_occurrence")
    for path in (directory / "partial" / "trial").iterdir():
        if path.stem not in process.ALL_SAMPLE_TABLES:
            path.unlink()
    process.make_tables(Campaign(directory))
    assert rows(directory, "header_occurrence") == before
