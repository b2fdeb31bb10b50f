# Prints the functions of snakemake_internals when Snakemake reads the rules, plans a job, starts and runs one.
import os

from acapella.snakefile import snakemake_internals as internals

NAMES = ("is_dry_run", "runs_no_jobs", "is_main_process", "config_files", "forces_jobs")


def state(at):
    values = {name: bool(getattr(internals, name)(workflow)) for name in NAMES}
    print("state", at, *(f"{name}={value}" for name, value in values.items()), flush=True)
    return []


def planned(wildcards):
    state("planned")
    if os.environ.get("FORCE"):
        internals.force_outputs(workflow, ["out.txt"])
    return []


state("read")
print("started in", internals.first_directory(workflow))


rule copy:
    input:
        planned,
    output:
        "out.txt",
    benchmark:
        "benchmark.tsv"
    shell:
        "echo text > {output}"


onstart:
    state("started")
