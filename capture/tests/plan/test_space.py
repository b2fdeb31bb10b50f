"""The space that captures need, in the plan."""

import shutil
from types import SimpleNamespace

import pytest
from acapella_testing.capture.fake_testbed import FakeTestbed

from acapella_capture.plan.dry_run import plan_lines
from acapella_capture.plan.samples import SitePlan
from acapella_capture.plan.space import free_bytes, space_line
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Port, Site

GBPS = 10**9
# 8 Gbit/s in frames of 1,000 bytes are 1 million frames per second; each is stored in 16 + 184 bytes.
CAPTURE = {"sample_s": 10, "snaplen": 184, "directions": ["rx"]}
COLLECT = {"cycles": 3, "mean_frame_bytes": 1000, "instances": 1}


def lines(free: int, monkeypatch, tmp_path, testbed: str = "fabric", rate_bps: int | None = 8 * GBPS) -> list[str]:
    """Return the lines for two sites, at each of which one port is captured."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    settings = parse_settings({"testbed": testbed, "capture": CAPTURE, "collect": COLLECT})
    plans = [SitePlan(settings, Site(name, (Port("p", rate_bps),)), 1) for name in ("A", "B")]
    return list(space_line(settings, plans, tmp_path / "results" / "c"))


def test_captures_that_exceed_the_free_space_are_reported_with_alternatives(monkeypatch, tmp_path):
    (line,) = lines(11_999_999_999, monkeypatch, tmp_path)  # 2 sites, 3 samples of 10 s at 200 MB/s each
    assert line == (
        "space: captures of up to 12.0 GB at line rate, before compression, but only 12.0 GB is free in "
        f"{tmp_path}/results/c; run the campaign on a VM of FABRIC and fetch its results without raw/ "
        "(docs/fabric.md), or reduce collect.cycles, capture.sample_s or capture.snaplen"
    )
    (line,) = lines(10**9, monkeypatch, tmp_path, testbed="local")
    assert "FABRIC" not in line and line.endswith("; reduce collect.cycles, capture.sample_s or capture.snaplen")


@pytest.mark.parametrize(("free", "rate_bps"), [(12_000_000_000, 8 * GBPS), (0, None)])
def test_nothing_is_reported_if_captures_fit_or_their_size_is_unknown(free, rate_bps, monkeypatch, tmp_path):
    assert lines(free, monkeypatch, tmp_path, rate_bps=rate_bps) == []


def test_plan_ends_with_the_line(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    settings = parse_settings({"testbed": "local", "capture": CAPTURE, "collect": COLLECT})
    testbed = FakeTestbed("p")
    testbed.rate_bps = GBPS
    assert list(plan_lines(settings, testbed, testbed.sites(), tmp_path))[-1].startswith("space: captures of up to ")


def test_free_space_is_that_of_the_nearest_existing_directory(tmp_path):
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
