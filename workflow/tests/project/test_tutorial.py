"""The commands in docs/tutorial.md print the output that the page shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from acapella_testing.source_tree import ROOT

PAGE = ROOT / "docs" / "tutorial.md"


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return each command of a page (indented, after "$ ") with the lines of output below it."""
    found = []
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
        for line in block.splitlines():
            if line.startswith("    $ "):
                found.append((line.removeprefix("    $ "), []))
            elif found and block.startswith("    $ "):
                found[-1][1].append(line.removeprefix("    "))
    return found


def in_directory(command: str, directory: Path) -> str:
    """Return a command for the shell that runs from a directory other than the clone."""
    bin_directory = shlex.quote(str(Path(sys.executable).parent))
    snakefile = shlex.quote(str(ROOT / "Snakefile"))
    command = re.sub(r"^snakemake ", f"snakemake --snakefile {snakefile} --directory . ", command)
    return f"set -o pipefail; PATH={bin_directory}:$PATH; {command}"


def test_commands_print_what_the_tutorial_shows(tmp_path):
    (tmp_path / ".test").symlink_to(ROOT / ".test")
    (tmp_path / "results").mkdir()
    listed = commands(PAGE.read_text(encoding="utf-8"))
    assert {command.split()[0] for command, _ in listed} >= {"acapella", "snakemake"}
    for command, expected in listed:
        shell = ["bash", "-c", in_directory(command, tmp_path)]
        ended = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 141), f"{command}: {ended.stderr}"  # 141: head closed the pipe
        assert ended.stdout.splitlines() == expected, command
    assert "<svg" in (tmp_path / "results/first/figures/frame_sizes.svg").read_text()


def test_set_up_commands_exist():
    page, makefile = PAGE.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\S+)", page, re.M) + re.findall(r"`make (\S+)`", page)
    assert "setup" in targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []
