"""The commands in docs/generate.md and docs/monitor.md print the output that the pages show."""

import re
import shlex
import subprocess
from pathlib import Path

from acapella_testing import pages
from acapella_testing.requirements import require_built, require_programs, require_root, require_success

MEASURED = re.compile(r"[-+]?[\d.]+ (ns|us|ms|s|ppm|intervals)\b")


def comparable(lines: list[str]) -> list[list[str]]:
    """Return the words of each line. Measured values vary, and so does the width of their columns."""
    return [MEASURED.sub("MEASURED", line).split() for line in lines if line]


def test_examples_print_the_output_in_the_docs(tmp_path):
    require_built("acapella-dpdk-generate")
    require_built("acapella-monitor")
    require_programs("editcap")
    (tmp_path / "web.yaml").write_text(re.search(r"```yaml\n(.*?)```", pages.text_of("generate.md"), re.S)[1])
    pages.check(pages.text_of("generate.md", "First example"), tmp_path)
    pages.check(pages.text_of("monitor.md", "Monitor a capture"), tmp_path)
    pages.check(pages.text_of("monitor.md", "Packets lost between two places"), tmp_path)
    live_example(tmp_path)


def live_example(directory: Path) -> None:
    """Run the live example in one shell; continue after a command in the background when it has printed its line."""
    require_root("no network namespaces")
    (namespace, _), *inside, (end, _) = pages.commands(pages.text_of("generate.md", "Live example"), "#")
    assert end == "exit"
    require_success([*shlex.split(namespace), "-c", "true"], "network namespaces")
    script = ["exec > printed.txt 2>&1"]
    for command, expected in inside:
        script += [command]
        if command.endswith("&"):
            ready = f"grep -q {shlex.quote(expected[0])} printed.txt"
            script += [f"until {ready}; do kill -0 $! && sleep 0.05 || exit; done"]
    shell = [*shlex.split(namespace), "-c", pages.in_directory("\n".join(script))]
    ended = subprocess.run(shell, cwd=directory, check=False, timeout=60)
    printed = (directory / "printed.txt").read_text().splitlines()
    assert ended.returncode == 0, printed
    assert comparable(printed) == comparable([line for _, lines in inside for line in lines])
