"""What a run that ended early leaves to its user: which samples failed, which were merely stopped, and how to go on."""

import re
from collections.abc import Sequence
from pathlib import Path

STOPPED = "acapella: stopped"  # a stage's last line after Ctrl-C or SIGTERM


def how_to_go_on(text: str, campaign: str, excluded: Sequence[str]) -> str:
    """Which samples failed, with the last line of each one's log, and how the campaign goes on without them.

    ``text``: what Snakemake logged; ``excluded``: samples that the config leaves out already.
    """
    pattern = rf"^ +log: ({re.escape(campaign)}/logs/\S+\.log) \(check log"
    logs = {Path(path) for path in re.findall(pattern, text, re.MULTILINE)}
    last = {path: last_line(path) for path in sorted(logs)}
    failed = {path: said for path, said in last.items() if not said.startswith(STOPPED)}
    samples = {path.stem: said for path, said in failed.items() if path.parent.name in ("collect", "digest", "analyze")}
    if samples:
        return "\n".join(
            [
                "acapella: these samples failed:",
                *(f"  {sample}: {said or 'its log is empty'}" for sample, said in sorted(samples.items())),
                "Mend them and run snakemake again; or go on without them, by this line in the config:",
                f"  exclude: [{', '.join(sorted({*samples, *excluded}))}]",
            ]
        )
    if last and not failed:
        return "acapella: stopped; run snakemake again to go on"
    return "acapella: no sample failed by itself; the message above says what did"


def last_line(path: Path) -> str:
    """The last line of a job's log; "" where it wrote nothing."""
    if not path.is_file():
        return ""
    return "".join(path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:])
