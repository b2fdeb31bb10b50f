"""The space that captures need, in the plan."""

import re
import shutil
from types import SimpleNamespace

import pytest
import yaml
from acapella_testing.capture.fake_testbed import FakeTestbed

from acapella_capture.plan.dry_run import plan_lines
from acapella_capture.plan.samples import SitePlan
from acapella_capture.plan.space import DIGEST_BYTES_PER_FRAME, DIGEST_ON_NODES, free_bytes, space_lines
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Port, Site

GBPS = 10**9
# 8 Gbit/s in frames of 1,000 bytes are 1 million frames per second; each is stored in 16 + 184 bytes.
CAPTURE = {"sample_s": 10, "snaplen": 184, "directions": ["rx"]}
COLLECT = {"cycles": 3, "mean_frame_bytes": 1000, "instances": 1}


def lines(
    free: int, monkeypatch, tmp_path, testbed: str = "fabric", rate_bps: int | None = 8 * GBPS, **collect: object
) -> list[str]:
    """Return the lines for two sites with one captured port each."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    settings = parse_settings({"testbed": testbed, "capture": CAPTURE, "collect": COLLECT | collect})
    plans = [SitePlan(settings, Site(name, (Port("p", rate_bps),)), 1) for name in ("A", "B")]
    return list(space_lines(settings, plans, tmp_path / "results" / "c"))


def test_captures_that_exceed_the_free_space_are_reported_with_alternatives(monkeypatch, tmp_path):
    # 2 sites, 3 samples each, 10 s at 200 MB/s
    assert lines(11_900_000_000, monkeypatch, tmp_path) == [
        f"space: captures of up to 12.0 GB at line rate, before compression; 11.9 GB is free in {tmp_path}/results/c",
        "space: this may not suffice; to digest captures on the nodes and fetch only the digests, set "
        "`collect: {digest_on: node}`, or run the campaign on a VM of FABRIC and fetch its results without raw/ "
        "(docs/fabric.md), or reduce collect.cycles, capture.sample_s or capture.snaplen",
    ]
    _, advice = lines(10**9, monkeypatch, tmp_path, testbed="local")
    assert advice == "space: this may not suffice; reduce collect.cycles, capture.sample_s or capture.snaplen"


def test_advised_config_line_is_valid():
    changed = {"testbed": "fabric"} | yaml.safe_load(re.search("`(.+)`", DIGEST_ON_NODES)[1])
    assert parse_settings(changed).collect.digest_on == "node"


@pytest.mark.parametrize(("free", "rate_bps"), [(12_000_000_000, 8 * GBPS), (0, None)])
def test_no_alternatives_are_offered_if_captures_fit_or_their_size_is_unknown(free, rate_bps, monkeypatch, tmp_path):
    (line,) = lines(free, monkeypatch, tmp_path, rate_bps=rate_bps)
    assert line == (
        f"space: captures of {'up to 12.0 GB at line rate, before compression' if rate_bps else 'unknown size'}; "
        f"{free / 1e9:.1f} GB is free in {tmp_path}/results/c"
    )


def test_digests_on_nodes_need_less_space_here(monkeypatch, tmp_path):
    bytes_here = 60_000_000 * DIGEST_BYTES_PER_FRAME
    (line,) = lines(bytes_here, monkeypatch, tmp_path, digest_on="node")
    assert bytes_here < 12_000_000_000
    assert line.startswith(
        "space: captures of up to 12.0 GB at line rate, before compression; digested on their nodes, "
    )
    assert f"needs up to {bytes_here / 1e9:.1f} GB here; {bytes_here / 1e9:.1f} GB is free" in line
    _, advice = lines(bytes_here - 1, monkeypatch, tmp_path, digest_on="node")
    assert "digest_on" not in advice and "VM of FABRIC" in advice


def test_plan_ends_with_the_lines_about_space(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    settings = parse_settings({"testbed": "local", "capture": CAPTURE, "collect": COLLECT})
    testbed = FakeTestbed("p", rate_bps=GBPS)
    assert list(plan_lines(settings, testbed, testbed.sites(), tmp_path))[-2].startswith("space: captures of up to ")


def test_free_space_is_that_of_the_nearest_existing_directory(tmp_path):
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
