"""Examples in the pages of docs/: commands in indented blocks, with their output below them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from acapella_testing.runs import warm_acapella
from acapella_testing.source_tree import ROOT


def text_of(page: str, section: str | None = None) -> str:
    """Return the text of a page in docs/, or only that of the section with this title."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text if section is None else re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def commands(text: str, prompt: str = "$") -> list[tuple[str, list[str]]]:
    """Return each command (indented, after the prompt) with the lines of output below it."""
    mark = f"    {prompt} "
    found = []
    for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))*)+", text, re.M):
        for line in block.splitlines() if block.startswith(mark) else ():
            if line.startswith(mark):
                found.append((line.removeprefix(mark), []))
            else:
                found[-1][1].append(line.removeprefix("    "))
    return found


def in_directory(command: str) -> str:
    """Return a command for the shell that runs from a directory other than the clone."""
    bin_directory, snakefile = (shlex.quote(str(path)) for path in (Path(sys.executable).parent, ROOT / "Snakefile"))
    command = re.sub(r"^snakemake ", f"snakemake --snakefile {snakefile} --directory . ", command)
    return f"set -o pipefail; PATH={bin_directory}:$PATH; {command}"


def check(text: str, directory: Path) -> None:
    """Run the commands of a text in a directory; each has to succeed and to print what the text shows."""
    environment = os.environ | warm_acapella.environment()
    for command, expected in commands(text):
        shell = ["bash", "-c", in_directory(command)]
        ended = subprocess.run(shell, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 141), f"{command}: {ended.stderr}"  # 141: head closed the pipe
        assert ended.stdout.rstrip("\n").splitlines() == expected, command
