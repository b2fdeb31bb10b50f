"""What a run that ended early leaves to its user: which samples failed, which were merely stopped, and how to go on."""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

STOPPED = "acapella: stopped"  # a stage's last line after Ctrl-C or SIGTERM
DISK_FULL = "No space left on device"  # what Snakemake says where it cannot write down what it did
LEAST_FREE = 1 << 20  # bytes; then its log may lack these words, for it lies on the same disk
DAMAGED = "--damaged keep"  # in what digest advises for a capture whose bytes are damaged, and for no other


def how_to_go_on(text: str, campaign: str, excluded: Sequence[str]) -> str:
    """Which samples failed, with the last line of each one's log, and how the campaign goes on without them.

    ``text``: what Snakemake logged; ``excluded``: samples that the config leaves out already.
    """
    if disk_is_full(text):
        return f"acapella: the disk is full; make room in {Path.cwd()}, then run snakemake again"
    pattern = rf"^ +log: ({re.escape(campaign)}/logs/\S+\.log) \(check log"
    logs = {Path(path) for path in re.findall(pattern, text, re.MULTILINE)}
    last = {path: last_line(path) for path in sorted(logs)}
    failed = {path: said for path, said in last.items() if not said.startswith(STOPPED)}
    samples = {path.stem: said for path, said in failed.items() if path.parent.name in ("collect", "digest", "analyze")}
    if samples:
        damaged = sorted(path.stem for path in failed if path.parent.name == "digest" and DAMAGED in text_of(path))
        return "\n".join(
            [
                "acapella: these samples failed:",
                *(f"  {sample}: {said or 'its log is empty'}" for sample, said in sorted(samples.items())),
                "Mend them and run snakemake again; or go on without them, by this line in the config:",
                f"  exclude: [{', '.join(sorted({*samples, *excluded}))}]",
                *how_to_keep(damaged),
            ]
        )
    if last and not failed:
        anew = "; the collection starts anew, its samples are taken again" if is_collection(last) else ""
        return f"acapella: stopped; run snakemake again to go on{anew}"
    return "acapella: no sample failed by itself; the message above says what did"


def disk_is_full(text: str) -> bool:
    """Whether the working folder's disk is full. A command of ours names the file, which may be on another disk."""
    said = [line for line in text.splitlines() if DISK_FULL in line]
    ours = any(not line.startswith("acapella: ") or str(Path.cwd()) in line for line in said)
    return ours or shutil.disk_usage(".").free < LEAST_FREE


def is_collection(logs: Iterable[Path]) -> bool:
    """Whether one of the logs is of a testbed's collection, which is one piece."""
    return any(path.parent.name == "logs" and path.name == "collect.log" for path in logs)


def how_to_keep(damaged: Sequence[str]) -> list[str]:
    """The other way on for samples of damaged captures; [] where there are none."""
    if not damaged:
        return []
    return [f"or, to keep what is before the damage in {', '.join(damaged)}, by this one:", "  digest: {damaged: keep}"]


def last_line(path: Path) -> str:
    """The last line of a job's log; "" where it wrote nothing."""
    return "".join(text_of(path).strip().splitlines()[-1:])


def text_of(path: Path) -> str:
    """A job's log; "" where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
