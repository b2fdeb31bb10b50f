"""Tests that collections and measurements run once, even with the retries of the profile for Slurm."""

import re
from types import SimpleNamespace

from acapella_testing.new_files import write_file
from acapella_testing.runs.workflow_run import ROOT, run_snakemake
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra

RULE = re.compile(r"^ *(?:rule|checkpoint) (\w+):\n", re.M)
MEASURES = re.compile(r"acapella (?:measure|transfer) |\| \(trap '' INT TERM; tee")
SNAKEFILE = """
rule collect:
    output: "a"
    retries: 0
    shell: "echo >> attempts_of_collect; exit 1"

rule digest:
    output: "b"
    shell: "echo >> attempts_of_digest; exit 1"
"""


def measuring_rules() -> dict[str, str]:
    """Return the text of each rule that captures or measures, by name."""
    parts = [part for path in (ROOT / "rules").glob("*.smk") for part in RULE.split(path.read_text())[1:]]
    return {name: text for name, text in zip(parts[::2], parts[1::2], strict=True) if MEASURES.search(text)}


def test_collections_and_measurements_are_not_repeated():
    rules = measuring_rules()
    assert {"collect", "transfer", "measure_storage", "measure_response", "measure_collector"} <= {*rules}
    assert [name for name, text in rules.items() if "retries: 0\n" not in text] == []
    assert [name for name, text in rules.items() if 'slurm_extra="--no-requeue"' not in text] == []


def test_rule_without_retries_runs_once_although_the_profile_has_retries(tmp_path):
    write_file(tmp_path / "Snakefile", SNAKEFILE)
    ended = run_snakemake(["--cores", "1", "--retries", "2", "--keep-going", "a", "b"], tmp_path, {})
    assert ended.returncode == 1, ended.stdout
    assert (tmp_path / "attempts_of_collect").read_text() == "\n"
    assert (tmp_path / "attempts_of_digest").read_text() == "\n" * 3


class Resources(dict):
    """The resources of a job: a dictionary whose items are also attributes."""

    __getattr__ = dict.get


def test_slurm_does_not_requeue_a_measurement_even_if_the_profile_requeues_jobs():
    """sbatch uses the last of the two options."""
    job = SimpleNamespace(resources=Resources(slurm_extra="--no-requeue"), threads=1)
    settings = SimpleNamespace(requeue=True, no_requeue=False, qos=None, reservation=None)
    params = dict(run_uuid="u", slurm_logfile="l", comment_str="c", account="", partition="", workdir=None)
    validate_slurm_extra(job)
    options = get_submit_command(job, params, settings=settings).split()
    assert options.index("--no-requeue") > options.index("--requeue")
