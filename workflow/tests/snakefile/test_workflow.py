"""Tests the Snakefile, its rules and its configuration without running a stage."""

import os
import re
import subprocess
import sys

import pytest
import yaml
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import skip_if
from acapella_testing.runs.workflow_run import CAPTURES, ROOT, Workplace, jobs, rules_run, run_snakemake, workplace

from acapella.campaign import analyze
from acapella.flowreports import program
from acapella.snakefile import config
from acapella_core import schemas
from acapella_core.errors import UserError

RULES = sorted((ROOT / "rules").glob("*.smk"))


RULE = re.compile(r"^( *)(?:rule|checkpoint) (\w+):\n((?:\1 +.*\n|\n)+)", re.M)
BLOCKS = {f"{path.stem}:{name}": text for path in RULES for _, name, text in RULE.findall(path.read_text())}


@pytest.fixture
def place(tmp_path) -> Workplace:
    """Return the tiny campaign before its first run."""
    return workplace(tmp_path)


def test_rules_of_all_stages_are_found():
    assert {"collect", "digest", "index", "analyze", "process", "figures", "report"} <= {
        name.partition(":")[2] for name in BLOCKS
    }


@pytest.mark.parametrize("name", BLOCKS)
def test_rule_has_log_benchmark_resources_and_calls_a_stage(name):
    directives = {*re.findall(r"^ +(\w+):", BLOCKS[name], re.M)}
    assert {"log", "benchmark", "resources", "shell", "output"} <= directives
    assert not {"run", "script", "notebook", "wrapper"} & directives
    assert re.search(r"acapella \w+", BLOCKS[name])


@pytest.mark.parametrize("name", BLOCKS)
def test_rule_depends_on_its_code_unless_it_uses_a_testbed(name):
    samples_a_testbed = name == "collect:collect" and "collect.json" in BLOCKS[name]
    assert bool(re.search(r"digest_of_(code|figure)\(", BLOCKS[name])) == (
        not samples_a_testbed and name != "transfer_run:transfer"
    )


@pytest.mark.parametrize("name", BLOCKS)
def test_placeholders_for_paths_are_quoted(name):
    placeholders = re.findall(r"\{(?:input|output|log|params\.campaign)[^}]*\}", BLOCKS[name].partition("shell:")[2])
    assert [each for each in placeholders if not each.endswith(":q}")] == []


def test_rule_files_begin_with_a_description():
    assert [path for path in RULES if not path.read_text().startswith("# ")] == []


def test_rule_files_assign_each_name_once():
    names = [name for path in RULES for name in {*re.findall(r"^ *([A-Z][A-Z_0-9]*) =", path.read_text(), re.M)}]
    assert sorted(names) == sorted({*names}), "rule files share one namespace"


def test_snakemake_lint_is_clean(place):
    assert "Congratulations" in place.succeed("--lint")


def test_dry_run_lists_every_stage_and_writes_nothing(place):
    assert {"collect", "digest", "index", "analyze", "process", "report"} <= rules_run(place.succeed("--dry-run"))
    assert not (place.directory / "results").exists()


@pytest.mark.parametrize("profile", [[], ["--profile", "fabric"], ["--profile", "slurm", "--executor", "local"]])
def test_profile_default_is_applied_and_others_are_found_from_the_root(profile):
    ended = run_snakemake(["--directory", ".test", "--dry-run", "--quiet", "all", *profile], ROOT, {})
    assert ended.returncode == 0, ended.stdout
    assert "profiles/default" in ended.stdout


def test_dry_run_of_profile_fabric_prints_the_request_without_a_token(tmp_path, monkeypatch):
    for key in [key for key in os.environ if key.startswith("FABRIC_")]:
        monkeypatch.delenv(key)
    words = ["--profile", "fabric", "--dry-run", "--directory", str(tmp_path)]
    ended = run_snakemake(words, ROOT, {"HOME": str(tmp_path)})
    assert ended.returncode == 0, ended.stdout
    request = {"sites: STAR", "2 cores", "Net.PortMirroring", "VM.NoLimitDisk", "Component.SmartNIC_ConnectX_6"}
    request |= {"missing: no project_id", "cannot read the token file"}
    assert {text for text in request if text not in ended.stdout} == set()


def test_errors_of_merged_configs_name_the_file_of_the_value():
    """The command line overrides both files, so errors of its values name no file."""
    first, second = {"campaign": "x", "digest": {"threads": 3}}, {"sample": "s.tsv"}
    files = {"a.yaml": first, "b.yaml": second}
    for value, found_in, where in [
        (first, files, "a.yaml: digest.threads: "),
        (second | {"campaign": "x"}, files, "b.yaml: sample: unknown key; did you mean samples?"),
        (first | {"digest": {"threads": 4}}, files, "digest.threads: "),
        ({"digest": {}}, files, "campaign: missing"),
        ({"digest": {}}, {"a.yaml": {}}, "a.yaml: campaign: missing"),
    ]:
        with pytest.raises(UserError) as caught:
            config.checked(value, found_in)
        assert str(caught.value).startswith(f"config error: {where}")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"capture": {"snaplen": "abc"}},
            "config error: capture.snaplen: expected an integer from 64 to 262144, found 'abc'",
        ),
        ({"campagne": "x"}, "config error: campagne: unknown key; did you mean campaign?"),
        ({"digest": {"engin": "native"}}, "config error: digest.engin: unknown key; did you mean engine?"),
        (
            {"digest": {"engine": "fast"}},
            "config error: digest.engine: expected native, hybrid or tshark, found 'fast'",
        ),
        ({"campaign": "../other"}, "config error: campaign: expected a name (letters, digits"),
        (
            {"analysis": {"top_flows": 0}},
            "config error: analysis.top_flows: expected an integer of at least 1, found 0",
        ),
        (
            {"local": {"traffic": [{"kind": "http"}, {"kind": "fax"}]}},
            "config error: local.traffic[1].kind: expected ",
        ),
        ({"local": {"traffic": [{"ip": 6}]}}, "config error: local.traffic[0].kind: missing"),
        (
            {"figures": {"formats": "svg"}},
            "config error: figures.formats: expected a list, found 'svg'; did you mean [svg]?",
        ),
        ({"samples": None}, "config error: samples: missing"),
        (
            {"capture": {"filter": "-w/tmp/elsewhere"}},
            "config error: capture.filter: expected text that does not start with -, or null, found '-w/tmp/elsewhere'",
        ),
        ({"exclude": ["--drop"]}, "config error: exclude[0]: expected a name (letters, digits"),
        ({"capture": None}, "config error: capture: expected a mapping of keys to values, found null"),
        ({"trials": {"quiet": ["a"]}}, "config error: trials.quiet: expected at least 2 items, found 1 (trials of"),
        ({"trials": {"quiet": ["a", 5]}}, "config error: trials.quiet[1]: expected a name (letters, digits"),
        ({"trials": {"quiet": ["a", []]}}, "config error: trials.quiet[1]: expected at least 1 item, found none"),
        (
            {"trials": {"quiet": ["a", "b", "a"]}},
            "config error: trials.quiet[2]: sample 'a' is already in trials.quiet[0]",
        ),
        (
            {"trials": {"quiet": ["a", ["b", "a"]]}},
            "config error: trials.quiet[1][1]: sample 'a' is already in trials.qu",
        ),
        (
            {"trials": {"so quiet": ["a", "b"]}},
            "config error: trials: key 'so quiet': expected a name (letters, digits",
        ),
        ({"trials": {40: ["a", "b"]}}, "config error: trials: 40 is not text; write it in quotes"),
        ({"trials": {}}, "config error: trials: expected at least 1 key, found none"),
        ({"trials": {"quiet": ["a", "b"]}, "exclude": ["b"]}, "config error: trials.quiet[1]: sample 'b' is excluded"),
        ({"consistency": {"identity": "regions"}}, "config error: consistency.regions: missing"),
        ({"consistency": {"flow": "10.0.0.1"}}, "config error: consistency: flow: '10.0.0.1' is not a flow"),
        ({"consistency": {"from": "soon"}}, "config error: consistency: from, to: 'soon' is not a time"),
        ({"consistency": {"from": "2s", "to": "1s"}}, "config error: consistency: from, to: 2s 1s: --to must be"),
        (
            {"consistency": {"from": 2}},
            "config error: consistency.from: expected text that is not empty, or null, found 2",
        ),
        ({"consistency": {"window": "0s"}}, "config error: consistency: window: --window 0s: a window must be 1 ns or"),
        (
            {"pseudonyms": True, "infrastructure": {"slices": ["slices.csv"]}},
            "config error: infrastructure: the numbers of a site's ports identify it",
        ),
        ({"consistency": {"regions": ["4-8"]}}, "config error: consistency.regions[0]: expected OFFSET:LENGTH"),
    ],
)
def test_config_errors_name_their_key(changes, complaint):
    with pytest.raises(UserError) as caught:
        config.checked({"campaign": "x", "testbed": "files", "samples": "s.tsv"} | changes)
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "samples"),
    [
        ({}, None),
        ({"samples": "s.tsv"}, "s.tsv"),
        ({"testbed": "local"}, "config/samples.tsv"),
        ({"testbed": "files", "samples": None}, None),
        ({"transfer": {"data": ["*.json"]}}, None),
        ({"transfer": {"seed": 2}}, "config/samples.tsv"),
    ],
)
def test_config_of_transfers_without_testbed_and_samples_has_no_samples(changes, samples):
    filled = config.checked({"campaign": "x", "transfer": {"grid": {}}} | changes)
    assert filled["samples"] == samples
    assert config.has_samples(filled) == (samples is not None)


def test_config_of_an_infrastructure_study_without_testbed_and_samples_has_no_samples():
    study = {"campaign": "x", "infrastructure": {"slices": ["slices.csv"]}}
    assert not config.has_samples(config.checked(study))
    assert config.has_samples(config.checked(study | {"samples": "s.tsv"}))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"trials": {"quiet": ["a", "b"]}}, "trials"),
        ({"exclude": ["a"]}, "exclude"),
        ({"flowreports": {"samples": "all"}}, "flowreports"),
        ({"flowreports": {"study": True}}, "flowreports"),
    ],
)
def test_stage_that_needs_samples_is_an_error_without_them(changes, key):
    with pytest.raises(UserError, match=f"^config error: {key}: the campaign has no samples; set samples or testbed$"):
        config.checked({"campaign": "x", "transfer": {"grid": {}}} | changes)


def test_config_defaults_are_filled_in_at_every_level():
    filled = config.checked({"campaign": "x", "samples": "s.tsv", "analysis": {"top_flows": 7}})
    assert filled["analysis"] == {
        "top_flows": 7,
        "throughput_bin_s": 1,
        "traffic": "unfiltered",
        "congestion": analyze.congestion_limits(),
    }
    assert filled["digest"]["engine"] == "hybrid"


def test_config_yaml_shows_every_key_with_its_default():
    text = (ROOT / "config/config.yaml").read_text()
    shown = config.checked(yaml.safe_load(text))
    assert shown == config.checked({"campaign": shown["campaign"], "samples": shown["samples"]})
    assert {*keys_of(schemas.json_schema("config"))} <= {*re.findall(r"^[ #]*(\w+):", text, re.M)}


def test_thresholds_of_the_storage_study_must_be_ordered():
    with pytest.raises(UserError, match=r"storage\.thresholds: \[20, 10\]: the lower one comes first"):
        config.checked({"campaign": "x", "samples": "s.tsv", "storage": {"thresholds": [[20, 10]]}})


def keys_of(schema):
    """Yield all keys of nested objects. Items of lists are not included."""
    for key, inner in schema.get("properties", {}).items():
        yield key
        yield from keys_of(inner)


@pytest.mark.parametrize("mistake", [{"capture": {"snaplen": "abc"}}, {"campagne": "x"}])
def test_config_error_ends_snakemake_with_one_line(tmp_path, mistake):
    assert only_line(workplace(tmp_path, **mistake)).startswith("config error: ")


def only_line(place: Workplace) -> str:
    """Return the line that a failed dry run prints in addition to that of the profile."""
    (line,) = [line for line in place.fail("--dry-run").splitlines() if "profile" not in line]
    return line


def test_missing_temporary_directory_is_reported_before_any_job(place, tmp_path):
    place.environment["TMPDIR"] = str(tmp_path / "gone")
    last = place.fail("--dry-run").splitlines()[-1]
    assert last.startswith(f"temporary directory {tmp_path / 'gone'}: no such directory; "), last


def test_duplicate_sample_names_are_rejected_with_their_lines(place):
    place.sheet(*(("a", "s", port, str(CAPTURES / f"alpha-{port}.pcap.gz")) for port in ("p1", "p2")))
    assert re.search(r"config error: .*samples\.tsv line 3: sample 'a' is already in line 2", place.fail("--dry-run"))


def test_empty_sheet_is_reported_with_advice(place):
    place.sheet()
    printed = place.fail("--dry-run")
    assert re.search(r"^config error: .*samples\.tsv: no samples; add one line per capture.*\n?\Z", printed, re.M), (
        printed
    )
    assert not re.search(r"Exception|Error in|Traceback", printed), "one line, without Snakemake's frame"


def test_empty_sheet_affects_only_targets_that_need_samples(place):
    place.sheet()
    assert "Congratulations" in place.succeed("--lint")
    assert "conformance" in rules_run(place.succeed("--dry-run", "conformance"))
    assert {"measure_storage", "storage_tables", "storage"} <= rules_run(place.succeed("--dry-run", "storage"))


def test_missing_capture_is_reported_before_any_job(place):
    place.sheet(("here", "s", "p1", str(CAPTURES / "alpha-p1.pcap.gz")), ("lost", "s", "p2", "lost.pcap"))
    warning = "warning: config/samples.tsv line 3: config/lost.pcap: no such file; sample lost will fail"
    printed = place.succeed("--dry-run").splitlines()
    assert (printed.count(warning), printed[-1]) == (2, warning), "repeated at the end of the plan"
    job = ("--mode", "remote", "--target-jobs", "collect:sample=here")
    assert "warning: " not in place.succeed("--dry-run", *job), "the process of a job does not check all captures"
    place.configure(exclude=["lost"])
    assert "warning: " not in place.succeed("--dry-run")


def test_exclusion_of_an_unknown_sample_is_an_error(tmp_path):
    assert "config error: exclude: 'gamma' is not a sample of config/samples.tsv\n" in workplace(
        tmp_path, exclude=["gamma"]
    ).fail("--dry-run")


def test_option_configfile_replaces_config_yaml(tmp_path):
    place = workplace(tmp_path, exclude=["gamma"], trials={"mine": ["a", "b"]})
    write_file(tmp_path / "mine.yaml", "campaign: other\n")
    words = ("--dry-run", "--configfile", "mine.yaml")
    assert "results/other/report.html" in place.succeed(*words, "--config", "pseudonyms=True")
    write_file(tmp_path / "mine.yaml", "pseudonyms: true\n")
    assert (
        f"config error: {tmp_path / 'mine.yaml'}: campaign: missing (Name of the campaign; its results are in "
        "results/<campaign>)"
    ) in place.fail(*words)
    write_file(tmp_path / "mine.yaml", "campaign: other\nsamples: a.tsv\nsamples: b.tsv\n")
    assert "mine.yaml: key 'samples' occurs twice, in lines 2 and 3; remove" in place.fail(*words)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a list\n", "not a mapping of keys to values; write campaign: NAME"),
        ("", "not a mapping of keys to values; write campaign: NAME"),
        ("campaign: [\n", "not YAML: "),
        ("digest: {threads: 1, threads: 2}\n", "key 'threads' occurs twice in line 1; remove one of them"),
        (None, "cannot read: No such file or directory; start in the directory that contains it"),
    ],
    ids=["list", "empty", "no YAML", "key twice", "absent"],
)
def test_invalid_config_yaml_is_reported_in_one_line(place, tmp_path, text, complaint):
    (tmp_path / "config" / "config.yaml").unlink()
    if text is not None:
        write_file(tmp_path / "config" / "config.yaml", text)
    assert only_line(place).startswith(f"config error: config/config.yaml: {complaint}")


LOCAL = {"testbed": "local", "samples": None, "local": {"replay": {"repeats": 3}}}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"trials": {"quiet": ["quiet-1", ["quite-2", "quiet-3"]]}},
            "trials.quiet[1][0]: 'quite-2' is not a sample of testbed local; did you mean quiet-2?",
        ),
        ({"trials": {"loaded": ["loaded-1", "x"]}}, "trials.loaded[1]: 'x' is not a sample of testbed local"),
        ({"exclude": ["quiet-4"]}, "exclude: 'quiet-4' is not a sample of testbed local; did you mean quiet-3?"),
        ({"collect": {"mode": "slice"}}, "collect.slice: missing; mode slice requires the name of a slice"),
        ({"collect": {"mode": "sites", "sites": ["site9"]}}, "collect.sites: no site 'site9'; known: site1, site2"),
        (
            {"preprocess": {"anonymize": True}},
            "preprocess.key_file: missing; anonymize requires a key: acapella anonym",
        ),
    ],
)
def test_impossible_collection_is_reported_before_it_starts(tmp_path, changes, complaint):
    printed = workplace(tmp_path, **LOCAL | changes).fail("--dry-run")
    assert printed.splitlines()[-1].startswith(f"config error: {complaint}")


def test_finished_collection_needs_no_key(tmp_path):
    place = workplace(tmp_path, **LOCAL, preprocess={"anonymize": True, "key_file": "/nowhere/campaign.key"})
    assert "config error: preprocess.key_file: cannot read /nowhere" in place.fail("--dry-run")
    write_file(place.campaign / "raw" / "samples.tsv", "sample\tsite\tport\tfile\n")
    assert "What collect would do:" in place.succeed("--dry-run")


def test_planned_samples_of_the_local_testbed_may_be_trials_or_excluded(tmp_path):
    trials = {"quiet": ["quiet-1", "quiet-3"], "loaded": ["loaded-1", "loaded-2"]}
    place = workplace(tmp_path, **LOCAL, trials=trials, exclude=["run1-site1-port1-both-1", "quiet-2"])
    assert jobs(place.succeed("--dry-run"))["kappa"] == 2


@pytest.mark.soak
def test_demo_ignores_user_settings(tmp_path):
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"^.*@\$.*--cores \$\(CORES\) (.*config/demo\.yaml.*)$", makefile, re.M)
    words = command.replace("config/demo.yaml", str(ROOT / "config/demo.yaml")).split()
    words += ["--dry-run", "--printshellcmds", "--forceall"]
    place = workplace(tmp_path, exclude=["quiet-1"], trials={"mine": ["a", "b"]}, digest={"engine": "native"})
    plan = without_times(place.succeed(*words))
    place.configure()
    assert without_times(place.succeed(*words)) == plan


def without_times(printed: str) -> list[str]:
    """Return the lines of a plan sorted by text, without those that differ between runs."""
    return sorted(re.findall(r"^(?! *(?:Date|Workflow ID|Config MD5|space: captures of up to|\[)).*$", printed, re.M))


def test_committed_captures_are_reproducible(tmp_path):
    subprocess.run([sys.executable, str(ROOT / ".test/make_captures.py"), str(tmp_path)], check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in CAPTURES.iterdir()
    }


@pytest.mark.parametrize("lock", sorted(ROOT.glob("*/requirements*.lock")), ids=lambda path: path.name)
def test_locks_contain_versions_and_hashes_and_no_address(lock):
    text = lock.read_text()
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links|^-i ", text, re.M)
    pinned = re.findall(r"^[a-z0-9][^\s=]*==", text, re.M)
    assert pinned
    assert len(re.findall(r"^[a-z0-9].* \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)) == len(pinned)


TWO_TRIALS = {"trials": {"quiet": ["alpha-p1", "alpha-p2"], "loaded": [["alpha-p1", "beta-p1"], "alpha-p2"]}}


def test_trials_are_compared_only_if_the_config_has_them(place):
    assert "kappa" not in place.succeed("--dry-run")
    place.configure(**TWO_TRIALS)
    printed = place.succeed("--dry-run", "--printshellcmds")
    assert jobs(printed)["kappa"] == 2
    assert jobs(printed)["trials"] == 1
    assert "conformance" not in rules_run(printed)
    assert " --papers" not in printed, printed
    place.configure(**TWO_TRIALS, report={"papers": True})
    with_papers = place.succeed("--dry-run", "--printshellcmds")
    assert "conformance" in rules_run(with_papers)
    assert " --trials --papers " in with_papers, with_papers
    assert re.search(
        r"--name=alpha-p1\+beta-p1 .* -- \S+/alpha-p1\.pcap\.gz,\S+/beta-p1\.pcap\.gz \S+/alpha-p2", printed
    )
    assert "--environments quiet loaded" in printed
    assert printed.count("--damaged fail -- ") == 2  # in the commands of kappa
    place.configure(**TWO_TRIALS, digest={"damaged": "keep"})
    assert place.succeed("--dry-run", "--printshellcmds").count("--damaged keep -- ") == 2


def test_unknown_sample_in_a_trial_is_reported_with_its_key(tmp_path):
    printed = workplace(tmp_path, trials={"quiet": ["alpha-p1", ["beta-p1", "gamma"]]}).fail("--dry-run").splitlines()
    assert "config error: trials.quiet[1][1]: 'gamma' is not a sample of config/samples.tsv" in printed  # no suggestion


def test_flow_reports_are_planned_if_the_config_has_them(tmp_path):
    place = workplace(tmp_path, flowreports={"samples": "all", "study": True}, report={"papers": True})
    plan, why = place.succeed("--dry-run"), program.why_unavailable()
    rules = {"flowreports", "flowtables", "flowreports_published", "measure_response", "measure_collector", "flowstudy"}
    assert rules_run(plan) & rules == (set() if why else rules)
    assert (f"flow reports are omitted: {why}" in plan) == bool(why)
    skip_if(why)
    place.configure(flowreports={"samples": ["alpha"]})
    assert "config error: flowreports.samples: 'alpha' is not a sample of" in place.fail("--dry-run")


def test_errors_outside_jobs_are_printed_with_quiet_all(place):
    """Snakemake suppresses its own errors. The last lines are those of the error."""
    *_, kind, error = place.fail("--cores", "1", "--quiet", "all", "--", "unknown-target").splitlines()
    assert kind.startswith("MissingRuleException")
    assert "No rule to produce unknown-target" in error


@pytest.mark.soak
@pytest.mark.parametrize("module", ["acapella_core._native", "acapella_capture"])
def test_incomplete_installation_is_reported_in_one_line_with_quiet_all(tmp_path, module):
    program = f"import sys; sys.modules[{module!r}] = None; from snakemake.cli import main; main(sys.argv[1:])"
    words = ["--cores", "1", "--quiet", "all", "--snakefile", ROOT / "Snakefile", "--workflow-profile", "none"]
    ended = run(sys.executable, "-c", program, *words, cwd=tmp_path)
    assert ended.returncode == 1
    assert re.fullmatch(
        rf"acapella: error: the installation is not complete \(.*{module}.*\); run make setup\n", ended.stderr
    )
