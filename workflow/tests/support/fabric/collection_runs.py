"""Collections on a FABRIC on loopback: the config of a small one, and `acapella collect` in this process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from acapella_testing.fabric.experiment import SLICE
from acapella_testing.fabric.loopback import Loopback

from acapella_capture import collect
from acapella_capture.manifest import read

PORTS = ["HundredGigE0/0/0/5", "HundredGigE0/0/0/15", "TwentyFiveGigE0/0/0/12/1"]
OTHERS = ["HundredGigE0/0/0/2", "TenGigE0/0/0/22/0"]
COLLECT = {"mode": "sites", "sites": ["STAR", "UTAH"], "instances": 1}
COLLECT |= {"port_selection": "fixed", "ports": {"STAR": PORTS, "UTAH": OTHERS}}
ONE = {"sites": ["UTAH"], "ports": {"UTAH": OTHERS[:1]}}
OWN = {"mode": "slice", "slice": SLICE, "sites": [], "port_selection": "all", "ports": None, "instances": 1}


@dataclass(frozen=True)
class Collection:
    """A collection that has ended: exit status, directory of the campaign, and output."""

    status: int
    campaign: Path
    out: str
    err: str

    @property
    def raw(self) -> Path:
        return self.campaign / "raw"

    @property
    def printed(self) -> str:
        return self.out + self.err

    @property
    def error(self) -> str:
        """Return the last line of the errors."""
        return self.err.strip().splitlines()[-1]

    def manifests(self) -> list[dict]:
        """Return the manifests of its samples and trials, by name."""
        return [read(path) for path in sorted(self.raw.glob("*.json"))]


def config_of(fabric: Loopback, **changes) -> dict:
    """Return the config of a collection.

    `changes`: sections `collect`, `capture` and `preprocess`, key `sample_s`, and keys of section `fabric`.
    """
    nodes = {"nodes": changes.pop("nodes", "separate")}  # depends on other sections, so it is not a setting on its own
    return {
        "testbed": "fabric",
        "capture": {"sample_s": changes.pop("sample_s", 0.3)} | changes.pop("capture", {}),
        "collect": COLLECT | changes.pop("collect", {}),
        "preprocess": changes.pop("preprocess", {}),
        "fabric": asdict(fabric.settings(**changes)) | nodes,
    }


def run(fabric: Loopback, config: dict, *words: str) -> tuple[int, Path]:
    """Run `acapella collect` with a config and return its exit status and the campaign's directory."""
    path, campaign = fabric.directory / "config.json", fabric.directory / "results" / "first"
    path.write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["acapella collect", str(campaign), "--config", str(path), *words])
        return collect.main(), campaign


def collected(fabric: Loopback, *words: str, **changes) -> tuple[int, Path]:
    """Run `acapella collect` with the config of `config_of`."""
    return run(fabric, config_of(fabric, **changes), *words)


def ended(fabric: Loopback, capsys: pytest.CaptureFixture, *words: str, **changes) -> Collection:
    """Run `acapella collect` with the config of `config_of`; return also what it printed."""
    return Collection(*collected(fabric, *words, **changes), *capsys.readouterr())
