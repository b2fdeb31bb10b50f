"""Tests the samples that input functions use: names, captures, files with and without batches, configured names."""

import re
from types import SimpleNamespace

import pytest
from acapella_testing.new_files import new_directory, write_file
from snakemake.exceptions import WorkflowError

from acapella.snakefile.batches import Batches, batched_stages, sharded_stages
from acapella.snakefile.exit import exit_on_user_error
from acapella.snakefile.sample_names import check_names, configured_names, unknown_name
from acapella.snakefile.samples import Sample, Samples, read_collected
from acapella.snakefile.trials import Trials
from acapella_core import shards
from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

KNOWN = {name: Sample("WEST", f"p{name}", f"{name}.pcap") for name in "abc"}


def three_samples(excluded=(), unreadable=()) -> Samples:
    """Return three samples of a campaign."""
    return Samples("results/x", excluded, lambda: KNOWN, lambda capture: capture not in unreadable)


def test_excluded_samples_are_known_but_not_included():
    samples = three_samples(excluded=["b"])
    assert list(samples.known()) == ["a", "b", "c"]
    assert samples.included() == ["a", "c"]
    assert samples.files("{sample}.{kind}", kind=("x", "y"))(None) == ["a.x", "a.y", "c.x", "c.y"]


def test_selected_samples_keep_the_order_of_the_config():
    samples = three_samples(excluded=["b"])
    assert samples.selected("all") == ["a", "c"]
    assert samples.selected(["c", "b", "a"]) == ["c", "a"]
    assert samples.selected(None) == []


def test_samples_are_not_needed_before_an_input_function_runs():
    def fail():
        raise WorkflowError("the checkpoint has not run")

    function = Samples("results/x", [], fail).files("{sample}")
    with pytest.raises(WorkflowError):
        function(None)


def test_unreadable_capture_is_replaced_by_its_manifest():
    samples = three_samples(unreadable=["b.pcap"])
    assert (samples.capture("a"), samples.readable_capture("a")) == ("a.pcap", ["a.pcap"])
    assert (samples.capture("b"), samples.readable_capture("b")) == ("results/x/raw/b.json", [])
    assert (samples["b"].site, samples["b"].port) == ("WEST", "pb")


@pytest.mark.parametrize(
    ("testbed", "size", "reproduce", "expected"),
    [
        ("files", 2, None, ("collect", "digest", "analyze", "flowreports")),
        ("local", 2, None, ("digest", "analyze", "flowreports")),
        ("files", 1, None, ()),
        ("files", 2, "release", ()),
    ],
)
def test_stages_in_batches_depend_on_testbed_size_and_release(testbed, size, reproduce, expected):
    assert batched_stages({"testbed": testbed, "batches": {"samples": size}, "reproduce": reproduce}) == expected


@pytest.mark.parametrize("testbed", ["files", "local"])
@pytest.mark.parametrize("collected", [None, "in shards", "without shards"])
@pytest.mark.parametrize("stages", [(), ("digest", "analyze")])
def test_existing_collection_from_a_testbed_keeps_its_layout(tmp_path, testbed, collected, stages):
    if collected:
        write_file(tmp_path / "raw" / "samples.tsv", "")
    if collected == "in shards":
        new_directory(shards.marker(tmp_path, "collect"))
    found = sharded_stages(str(tmp_path), {"testbed": testbed}, stages)
    assert found - {"collect"} == ({*shards.STAGES.values()} - {"collect"} if stages else set())
    keeps = collected if testbed == "local" else None
    assert ("collect" in found) == (keeps == "in shards" if keeps else bool(stages))


@pytest.fixture
def batches(tmp_path, monkeypatch):
    """Return a function that returns batches of two samples, in the campaign `x` of the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        write_file(tmp_path / f"{name}.pcap", name * 5)
    workflow = SimpleNamespace(is_main_process=False)
    samples = Samples("x", ["b"], lambda: KNOWN | {"d": Sample("EAST", "p1", "missing.pcap")})
    limits = {"samples": 2, "megabytes": 1}
    return lambda *stages: Batches(workflow, "x", samples, limits, stages=stages, selected=lambda: ["b", "c"])


def test_without_batches_inputs_are_the_files_of_samples(batches):
    single = batches()
    assert single.results("digest", "acap/{sample}.parquet")(None) == [f"acap/{name}.parquet" for name in "acd"]


def test_with_batches_inputs_are_the_lists_of_samples(batches):
    samples = batches("digest", "analyze")
    assert samples.results("digest", "acap/{sample}.parquet")(None) == [f"x/batches/digest/b000{n}.tsv" for n in (1, 2)]
    assert samples.results("collect", "raw/{sample}.json")(None) == [f"raw/{name}.json" for name in "acd"]
    assert [samples.output_with("digest", name)[-9:] for name in "ad"] == ["b0001.tsv", "b0002.tsv"]
    assert samples.captures_of_campaign(None) == [("a.pcap", 5), ("c.pcap", 5), ("missing.pcap", 0)]


def test_flow_reports_of_a_batch_are_those_of_its_selected_samples(batches):
    """An excluded sample has no batch, and a batch without selected samples has no job."""
    samples, first = batches("digest", "flowreports"), SimpleNamespace(batch="b0001")
    assert samples.outputs("digest") == [f"x/batches/digest/b000{n}.tsv" for n in (1, 2)]
    assert samples.outputs("flowreports") == ["x/batches/flowreports/b0001.tsv"]
    assert samples.captures_of_job(first) == [("a.pcap", 5), ("c.pcap", 5)]
    assert samples.captures_of_job(first, "flowreports") == [("c.pcap", 5)]
    assert samples.captures_of_campaign(None, "flowreports") == [("c.pcap", 5)]
    assert samples.description("b0001") != samples.description("b0001", "flowreports")


def test_samples_of_a_testbed_are_read_from_its_sheet(tmp_path):
    header = "sample\tsite\tport\tfile\n"
    sheet = write_file(tmp_path / "samples.tsv", f"{header}a\tWEST\tp1\ta.pcap\n")
    assert read_collected(sheet, "results/x") == {"a": Sample("WEST", "p1", "results/x/raw/a.pcap")}
    write_file(sheet, "changed")
    assert list(read_collected(sheet, "results/x")) == ["a"], "the sheet is read once"
    other = write_file(tmp_path / "other.tsv", f"{header}../x\tWEST\tp1\tx.pcap\n")
    with pytest.raises(SystemExit) as ended:
        read_collected(other, "results/x")
    assert ended.value.code.startswith(f"error: {other} line 2: sample '../x': ")


CONFIG = {"exclude": ["x"], "flowreports": {"samples": ["r"]}, "trials": {"quiet": ["a", ["b", "c"]]}}


def test_configured_names_have_their_keys():
    trials = [("a", "trials.quiet[0]"), ("b", "trials.quiet[1][0]"), ("c", "trials.quiet[1][1]")]
    assert configured_names(CONFIG) == [("x", "exclude"), ("r", "flowreports.samples"), *trials]
    assert configured_names(CONFIG | {"flowreports": {"samples": "all"}, "trials": None}) == [("x", "exclude")]
    assert configured_names(CONFIG | {"flowreports": {"samples": None}, "trials": None}) == [("x", "exclude")]


def test_unknown_name_is_reported_with_its_key_and_a_similar_name():
    named, known = [("quiet-1", "exclude"), ("quite-2", "trials.a[0]"), ("z", "trials.a[1]")], ["quiet-1", "quiet-2"]
    assert (
        unknown_name(named, known, "of x.tsv")
        == "trials.a[0]: 'quite-2' is not a sample of x.tsv; did you mean quiet-2?"
    )
    assert unknown_name(named[:1], known, "of x.tsv") is None
    with pytest.raises(UserError, match=r"trials\.a\[0\]: 'quite-2' is not a sample of x.tsv"):
        check_names(named, known, "of x.tsv")
    check_names(named[:1], known, "of x.tsv")


def test_trials_with_several_captures_keep_them_together():
    trials = Trials({"quiet": ["a", ["c", "b"]], "loud": ["b", "a"]})
    assert trials.of("quiet") == [["a"], ["c", "b"]]
    assert trials.samples() == ["a", "b", "c"]
    assert trials.captures("quiet", three_samples(unreadable=["b.pcap"]), "s") == [
        "a.pcap",
        "c.pcap",
        "results/x/raw/b.json",
    ]
    assert trials.samples("loud") == ["a", "b"]
    assert [trials.outputs(sample) for sample in "ca"] == [
        ["kappa/quiet.json"],
        ["kappa/quiet.json", "kappa/loud.json"],
    ]
    assert Trials({}).samples() == []


def test_trial_that_was_not_captured_is_reported():
    message = "config error: trials.quiet[1]: 'z' is not a sample that was captured; raw/samples.tsv lists the captured"
    with pytest.raises(WorkflowError, match=f"^{re.escape(message)} ones"):
        Trials({"quiet": ["a", "z"]}).captures("quiet", three_samples(), "raw/samples.tsv")


def test_only_names_of_environments_match_the_wildcard():
    assert Trials({"a.b": [], "c": []}).wildcard_constraint() == r"a\.b|c"
    assert Trials({}).wildcard_constraint() == "none"


def test_error_ends_snakemake_with_one_line():
    with pytest.raises(SystemExit) as ended, exit_on_user_error("config error: "):
        raise UserError("missing", where="x.tsv")
    assert ended.value.code == "config error: x.tsv: missing"
    with pytest.raises(ValueError, match="other"), exit_on_user_error():
        raise ValueError("other")


def test_similar_name_is_suggested():
    assert did_you_mean("quite-2", ["quiet-2", "x"]) == "; did you mean quiet-2?"
    assert did_you_mean("gamma", ["quiet-2", "x"]) == ""
