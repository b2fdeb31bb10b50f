"""Runs `acapella transfer` on a FABRIC on loopback whose nodes have networks; finds its results and slices."""

import contextlib
import copy
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.fabric.network import NodeNetworks, node_networks
from acapella_testing.fabric.orchestrator import TAGS
from acapella_testing.fabric.placement import PlacingOrchestrator
from acapella_testing.generated.transfer_cells import TransferResults
from acapella_testing.new_files import write_file

from acapella_capture.testbeds.fabric.networks import MULTISITE
from acapella_capture.transfer import command

HOST = {"cores": 32, "ram": 128, "disk": 1000, "nics": {"SmartNIC-ConnectX-6": 4, "SmartNIC-ConnectX-5": 1}}
SITES = ("SEAT", "SALT", "STAR", "NEWY", "MASS", "UCSD", "LOSA", "DALL", "MICH")
GRID = {"algorithm": ["reno"], "delay_ms": [0], "buffer_bytes": ["50K"], "rate_mbps": [20], "size_bytes": ["300K"]}
SLICE = "acapella-one-transfer-slice"
DUMBBELL = """
nodes: {h1: {role: host, site: SEAT}, r1: {role: router, site: SEAT}, h2: {role: host, site: SALT}}
links: {access: {between: [h1, r1]}, bottleneck: {between: [r1, h2], emulated: true}}
paths: {main: [h1, r1, h2]}
"""  # the smallest slice: fewer commands over SSH


@dataclass
class FabricTransfers(TransferResults):
    """A FABRIC with networks, and a user's campaign on it."""

    loopback: Loopback
    networks: NodeNetworks
    capsys: pytest.CaptureFixture

    @property
    def orchestrator(self) -> PlacingOrchestrator:
        return self.loopback.orchestrator

    @property
    def campaign(self) -> Path:
        return self.loopback.directory / "results" / "one"

    @property
    def slices(self) -> list[str]:
        return self.loopback.slices

    def topology(self, text: str = DUMBBELL, name: str = "dumbbell") -> str:
        """Write a topology file; return its path."""
        return str(write_file(self.loopback.directory / f"{name}.yaml", text))

    def transfer(self, *words: str, grid: dict | None = None, fabric: dict | None = None, **changes) -> tuple:
        """Run `acapella transfer`, over the dumbbell by default; return its exit status and output."""
        transfer = {"testbed": "fabric", "topology": self.topology(), "grid": GRID | (grid or {})}
        transfer |= {"nodes": {"pin": False}} | changes
        config = {"transfer": transfer, "fabric": asdict(self.loopback.settings(**(fabric or {})))}
        file = write_file(self.loopback.directory / "config.json", json.dumps(config))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["acapella transfer", str(self.campaign), "--config", str(file), *words])
            return command.main(), *self.capsys.readouterr()

    def failure(self, *words: str, **changes) -> str:
        """Run `acapella transfer`, which must fail with a one-line error; return the error."""
        status, out, err = self.transfer(*words, **changes)
        assert status == 2, err + out
        assert len(err.strip().splitlines()) == 1, err
        return err


@contextlib.contextmanager
def fabric_with_networks(directory: Path, capsys: pytest.CaptureFixture) -> Iterator[FabricTransfers]:
    """Run a FABRIC with the sites of the built-in topologies."""
    with loopback_fabric(directory, {site: [copy.deepcopy(HOST)] for site in SITES}, PlacingOrchestrator) as loopback:
        loopback.orchestrator.tags = (*TAGS, MULTISITE)
        with node_networks(loopback.orchestrator, loopback.nodes) as networks:
            loopback.orchestrator.reboot = networks.reboot
            yield FabricTransfers(loopback, networks, capsys)
