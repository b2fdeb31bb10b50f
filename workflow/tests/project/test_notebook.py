"""Runs notebooks/fabric_quickstart.ipynb on a FABRIC on loopback, with FABRIC's own client in the notebook's kernel."""

import os
from pathlib import Path

import nbformat
import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.fabric.experiment import SITES
from acapella_testing.fabric.loopback import QUICK, Loopback, loopback_fabric
from acapella_testing.fabric.processes import environment
from acapella_testing.new_files import new_directory
from acapella_testing.processes import executable
from acapella_testing.runs import warm_acapella
from acapella_testing.runs.workflow_run import ROOT
from acapella_testing.soak import takes_minutes
from nbclient import NotebookClient

NOTEBOOK = ROOT / "notebooks" / "fabric_quickstart.ipynb"
KEPT_OUT = {"notebooks", "results", ".git", ".snakemake", "build"}
# Prints the table of interfaces that the notebook reads; otherwise runs the script of the simulated nodes.
LINKS = """#!/bin/sh
case "$*" in
    "-br link") tr '{}' '\\n\\n' < "$HOME/links.json" |
        sed -n 's/.*"ifname": "\\([^"]*\\)", "address": "\\([^"]*\\)".*/\\1 UP \\2 <UP>/p' ;;
    *) exec "$(dirname "$0")/ip.simulated" "$@" ;;
esac
"""


def project(directory: Path) -> Path:
    """Return a directory with links to the project, and empty directories for results and for running the notebook."""
    new_directory(directory / "notebooks")
    new_directory(directory / "results")
    for entry in (entry for entry in ROOT.iterdir() if entry.name not in KEPT_OUT):
        (directory / entry.name).symlink_to(entry)
    return directory


def notebook(fabric: Loopback) -> nbformat.NotebookNode:
    """Return the notebook with settings of the simulated FABRIC after its own."""
    read = nbformat.read(NOTEBOOK, as_version=4)
    (settings,) = [cell for cell in read.cells if "parameters" in cell.metadata.get("tags", [])]
    settings.source += f"\nsample_s = 0.5\nfabric |= {QUICK | {'telemetry_url': fabric.orchestrator.url}!r}\n"
    return read


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.get("outputs", ()))


def run(fabric: Loopback, directory: Path) -> tuple[Path, list[nbformat.NotebookNode]]:
    """Run the notebook; return the project's directory and the cells with code."""
    place, home, opened = project(directory / "project"), directory / "home", notebook(fabric)
    executable(fabric.nodes.program("iperf3"), '#!/bin/sh\necho "iperf3 $*" >> "$HOME/commands.log"\n')
    fabric.nodes.program("ip").rename(fabric.nodes.program("ip.simulated"))
    executable(fabric.nodes.program("ip"), LINKS)
    (new_directory(home / "work") / "fabric_config").symlink_to(fabric.directory)
    variables = environment(fabric.nodes, directory) | {"HOME": str(home)} | warm_acapella.environment()
    client = NotebookClient(opened, timeout=600, resources={"metadata": {"path": str(place / "notebooks")}})
    client.execute(env=os.environ | variables)
    return place, [cell for cell in opened.cells if cell.cell_type == "code"]


@pytest.mark.soak
@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(("Component.SmartNIC",), id="mirror"),
        pytest.param((), id="host", marks=takes_minutes),
    ],
)
def test_notebook_ends_with_a_figure_and_releases_everything(tags, tmp_path):
    with loopback_fabric(new_directory(tmp_path / "fabric"), SITES) as fabric:
        fabric.orchestrator.tags = tags
        place, cells = run(fabric, tmp_path)
        assert [stored.name for stored in fabric.orchestrator.slices.values()] == ["acapella-quickstart"]
        assert not fabric.orchestrator.alive()
        logs = {node: (fabric.nodes.home(node) / "commands.log").read_text() for node in ("node1", "node2")}
    assert any(f"sampling level {'slice' if tags else 'host'}" in printed(cell) for cell in cells)
    (figure,) = [output for cell in cells for output in cell.outputs if "image/svg+xml" in output.get("data", {})]
    assert "frame" in figure.data["image/svg+xml"].lower()
    assert "ip address replace 10.10.1.1/24 dev enp8s0" in logs["node1"]
    assert "ip address replace 10.10.1.2/24 dev enp8s0" in logs["node2"]
    assert "iperf3 --server --daemon" in logs["node2"]
    assert "iperf3 --client 10.10.1.2" in logs["node1"]
    assert len(read_rows(place / "results" / "quickstart" / "raw" / "samples.tsv")) == 2


def test_notebook_has_no_outputs():
    read = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(read)
    code = [cell for cell in read.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count is not None]
