# Digests four samples, of which `bad` always fails and `late` fails in its first attempt; prints the state at the end.
from snakemake.logging import logger

from acapella.snakefile.progress import Progress

progress = Progress(print)
logger.addHandler(progress)
SAMPLES = ("a", "b", "bad", "late")


rule process:
    input:
        [f"{sample}.acap" for sample in SAMPLES],
    output:
        "table",
    shell:
        "touch {output}"


rule digest:
    output:
        "{sample}.acap",
    resources:
        attempt=lambda wildcards, attempt: attempt,
    shell:
        "test {wildcards.sample} != bad; test {wildcards.sample} != late -o {resources.attempt} -gt 1; touch {output}"


onerror:
    print(progress.line())
