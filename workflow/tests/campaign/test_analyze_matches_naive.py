"""Compares every table with the naive reference, for digested captures and for generated acaps."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from acapella_testing.frames import traces
from acapella_testing.generated import tiny
from acapella_testing.generated.files_campaign import run
from acapella_testing.oracles import naive_frames, naive_samples, naive_tables
from acapella_testing.oracles.table_agreement import assert_equal
from acapella_testing.requirements import require_programs
from acapella_testing.runs.stages import add_capture, analyze_campaign, rows
from acapella_testing.source_tree import ROOT

MS = traces.MS
PERIOD_NS = 30 * 10**9


def made_campaign(directory: Path, engine: str) -> list[naive_samples.Sample]:
    """Digest captures of every kind from three ports at two sites; return the naive reading of the samples."""
    samples, start = [], traces.START_NS
    plan = {
        ("WEST", "p1", 0): traces.busy_port(start),
        ("WEST", "p1", 1): traces.busy_port(start + PERIOD_NS, shift=1),
        ("WEST", "p1", 2): traces.busy_port(start + 2 * PERIOD_NS),
        ("WEST", "p2", 0): traces.busy_port(start + 5 * MS)[:40],
        ("EAST", "p1", 0): traces.merged(
            traces.whole_connection("mpls", start, labels=(900, 901)),
            traces.datagrams("pw", start + 9 * MS, count=9),
            # equal addresses and ports in two FABRIC slices
            traces.cut_in_the_middle("vlan", start, vlan=7),
            traces.cut_in_the_middle("vlan", start + 1, vlan=8, segments=2),
        ),
        ("EAST", "p1", 1): [],
    }
    for (site, port, n), trace in plan.items():
        name, span = f"{site.lower()}-{port}-{n}", (start + n * PERIOD_NS - MS, start + n * PERIOD_NS + 5 * 10**9)
        known = {"span": span, "frames_captured": 80, "dropped_kernel": 3}
        known = known if (site, port) == ("WEST", "p1") else {}  # only this port has times and losses
        capture, manifest = add_capture(directory, name, trace, place=(site, port), engine=engine, **known)
        frames = naive_frames.read_frames(capture)
        samples.append(naive_samples.Sample(name, site, port, frames, naive_frames.make_flows(frames, site), manifest))
    return samples


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Return the directory with the tables and the naive samples. The columns l4_by, app_by, issue and flow_id come
    from the digest, because the naive reading does not compute them.
    """
    directory = tmp_path_factory.mktemp("captured") / "small"
    samples, digests = made_campaign(directory, "native"), naive_samples.read_campaign(directory)
    for mine, digested in zip(sorted(samples, key=lambda s: s.name), digests, strict=True):
        mine.digest = digested.digest
        for frame, recorded in zip(mine.frames, digested.frames, strict=True):
            frame.update({k: recorded[k] for k in ("l4_by", "app_by", "issue")})
        for flow, recorded in zip(mine.flows, digested.flows, strict=True):
            flow["flow_id"] = recorded["flow_id"]
    return analyze_campaign(directory), samples


@pytest.fixture(scope="module")
def labeled(tmp_path_factory):
    """Return the directory and the naive samples of the same captures, labeled by tshark."""
    require_programs("tshark")
    directory = tmp_path_factory.mktemp("labeled") / "small"
    made_campaign(directory, "hybrid")
    return analyze_campaign(directory), naive_samples.read_campaign(directory)


@pytest.fixture(scope="module")
def made_up(campaign):
    """Return the directory and the naive samples of the generated campaign."""
    return campaign, naive_samples.read_campaign(campaign)


@pytest.mark.parametrize("name", sorted(naive_tables.TABLES))
def test_tables_of_captures_equal_the_naive_reference(captured, name):
    assert_equal(name, *captured)


@pytest.mark.parametrize("name", sorted(naive_tables.TABLES))
def test_tables_of_captures_with_labels_equal_the_naive_reference(labeled, name):
    assert_equal(name, *labeled)


@pytest.mark.parametrize("name", sorted(naive_tables.TABLES))
def test_tables_of_generated_acaps_equal_the_naive_reference(made_up, name):
    assert_equal(name, *made_up)


@pytest.mark.soak
def test_rates_are_rounded_half_up_as_in_the_naive_reference(tmp_path):
    """1,000 bytes over three durations, which give rates with a fraction below, equal to and above one half."""
    for name, covered_ns in (("below", 600_000_000), ("half", 40_960_000), ("above", 700_000_000)):
        known = {"start_ns": tiny.START, "end_ns": tiny.START + covered_ns}
        tiny.add_sample(tmp_path, name, ("WEST", name), None, [tiny.flow(0, 0.03)], actual=known)
    assert_equal("throughput", analyze_campaign(tmp_path), naive_samples.read_campaign(tmp_path))
    found = {row["port"]: row["rate_bps"] for row in rows(tmp_path, "throughput")}
    assert found == {"below": 13_333, "half": 195_313, "above": 11_429}


@pytest.mark.soak
@pytest.mark.parametrize("known", [None, "manifest"])
def test_bins_before_1970_equal_the_naive_reference(tmp_path, known):
    """The clock was never set: frames lie on both sides of 1970, on the edge of a bin and inside one."""
    instants = [-2_500_000_000, -2 * tiny.SECOND, -1, 0, tiny.SECOND // 2]
    flows = [tiny.flow(0, 0, src=f"10.0.0.{n}", first_ns=at, last_ns=at) for n, at in enumerate(instants, 1)]
    recorded = {"actual": {"start_ns": -3_700_000_000, "end_ns": 700_000_000}} if known else {}
    tiny.add_sample(tmp_path, "early", span=None, flows=flows, **recorded)
    assert_equal("throughput", analyze_campaign(tmp_path), naive_samples.read_campaign(tmp_path))
    found = [(row["start_ns"] // tiny.SECOND, row["frames"]) for row in rows(tmp_path, "throughput")]
    assert found == [*([(-4, 0)] if known else []), (-3, 2), (-2, 2), (-1, 2), (0, 4)]


def test_published_tables_have_a_naive_reference():
    from acapella.campaign.process import TABLES  # noqa: PLC0415

    assert set(TABLES) == naive_tables.TABLES | {"congestion"}  # test_congestion.py checks table congestion


def test_captures_contain_every_case_of_the_reference(captured):
    _, samples = captured
    flows = [flow for s in samples for flow in s.flows]
    assert any(f["handshake_rtt_ns"] == 10 * MS for f in flows)
    assert any(f["retransmitted_bytes"] == 700 for f in flows)
    assert any(f["duplicate_acks"] == 2 for f in flows)
    assert any(f["rst"] for f in flows)
    assert {len(f["mpls"]) for f in flows} == {0, 1, 2}
    assert any(f["src_port"] is None and f["ip_proto"] == 17 for f in flows), "later fragments"
    slices = [f for f in samples[4].flows if (f["src"], f["src_port"]) == ("10.0.0.1", 40000)]
    slices = [f for f in slices if f["vlan"] in ([7], [8])]
    assert len(slices) == 2, "equal addresses in two slices are two flows"


def test_query_of_the_documentation_counts_frames_by_label_as_the_naive_reference(labeled, capsys):
    """The query of docs/running.md groups the view `frames` by column app."""
    directory, samples = labeled
    (query,) = re.findall(r'"(select app, [^"]*)"', (ROOT / "docs" / "running.md").read_text(encoding="utf-8"))
    capsys.readouterr()
    run("sql", directory, query, "--format", "json")
    found = {row["app"]: (row["frames"], row["wire_bytes"]) for row in json.loads(capsys.readouterr().out)}
    expected = defaultdict(lambda: (0, 0))
    for flow in (flow for sample in naive_samples.traffic(samples, "unfiltered") for flow in sample.flows):
        frames, wire_bytes = expected[flow["app"]]
        expected[flow["app"]] = (frames + flow["frames"], wire_bytes + flow["wire_bytes"])
    assert found == expected
    assert len(found) > 2
