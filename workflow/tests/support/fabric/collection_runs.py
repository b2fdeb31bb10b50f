"""Collections on a FABRIC on loopback: the config of a small one, and `acapella collect` in this process."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import Loopback

from acapella_capture import collect

PORTS = ["HundredGigE0/0/0/5", "HundredGigE0/0/0/15", "TwentyFiveGigE0/0/0/12/1"]
OTHERS = ["HundredGigE0/0/0/2", "TenGigE0/0/0/22/0"]
COLLECT = {"mode": "sites", "sites": ["STAR", "UTAH"], "instances": 1}
COLLECT |= {"port_selection": "fixed", "ports": {"STAR": PORTS, "UTAH": OTHERS}}
ONE = {"sites": ["UTAH"], "ports": {"UTAH": OTHERS[:1]}}


def config_of(fabric: Loopback, **changes) -> dict:
    """Return the config of a collection; `changes` are keys of sections `collect`, `capture`, ..., or of `fabric`."""
    nodes = {"nodes": changes.pop("nodes", "separate")}  # depends on other sections, so it is not a setting on its own
    return {
        "testbed": "fabric",
        "capture": {"sample_s": changes.pop("sample_s", 0.3)} | changes.pop("capture", {}),
        "collect": COLLECT | changes.pop("collect", {}),
        "preprocess": changes.pop("preprocess", {}),
        "fabric": asdict(fabric.settings(**changes)) | nodes,
    }


def collected(fabric: Loopback, *words: str, **changes) -> tuple[int, Path]:
    """Run `acapella collect` and return its exit status and the campaign's directory."""
    path, campaign = fabric.directory / "config.json", fabric.directory / "results" / "first"
    path.write_text(json.dumps(config_of(fabric, **changes)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["acapella collect", str(campaign), "--config", str(path), *words])
        return collect.main(), campaign
