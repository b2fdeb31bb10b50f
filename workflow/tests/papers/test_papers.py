"""Tests the comparison of a campaign with numbers printed in papers, and the configs of the papers."""

import json

import pytest
import yaml
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated import generated_transfers
from acapella_testing.generated.files_campaign import failed, run
from acapella_testing.generated.generated_tables import write_table, write_tables
from acapella_testing.new_files import write_file
from acapella_testing.source_tree import ROOT

from acapella.campaign.layout import Campaign
from acapella.figures import registry
from acapella.figures.source import Source
from acapella.papers import command, printed
from acapella.report import papers
from acapella.snakefile import config, optional_stages


def compare(campaign, *papers) -> dict[str, dict]:
    """Compare a campaign with papers; return the rows of paper_numbers by name."""
    run("campaign", "papers", campaign, *(["--papers", *papers] if papers else []))
    return {row["name"]: row for row in table(campaign, "paper_numbers")}


def table(campaign, name: str) -> list[dict]:
    return read_rows(campaign / "tables" / f"{name}.csv")


def result(rows: dict[str, dict], name: str) -> list[str]:
    """Return our number and the verdict of a row."""
    return [rows[name]["ours"], rows[name]["verdict"]]


@pytest.mark.parametrize("paper", [paper for paper in command.PAPERS if paper != "p4_rdma"])
def test_printed_numbers_have_unique_names_a_place_and_a_reason(paper):
    rows = printed.rows(paper)
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert row["where"]
        assert row["what"]
        assert row["printed"]
        assert row["reason"].endswith((".", "mean."))
        ends = (row["low"], row["high"])
        assert None in ends or ends[0] <= ends[1]
        assert ends != (None, None) or row["reason"].startswith("Not comparable:")


def test_printed_means_of_kappa_match_the_recomputed_table():
    recomputed = [row for row in read_rows(printed.DIRECTORY / "kappa_printed.csv") if row["run"] == "mean"]
    rows = {row["what"]: row["printed"] for row in printed.rows("choir") if row["name"].startswith("kappa_")}
    assert rows == {f"kappa, {row['environment']}": row["kappa"] for row in recomputed}


def test_patchwork_is_compared_with_the_tables_of_traffic(tmp_path):
    made = write_tables(tmp_path / "made", sites=4)
    rows = compare(made, "patchwork")
    (share,) = [row["share"] for row in table(made, "ip_versions") if (row["site"], row["ip_version"]) == ("all", "6")]
    assert rows["ipv6"]["ours"].removesuffix(" %") == f"{100 * float(share):.3g}"
    flows = sorted(int(row["flows"]) for row in table(made, "flows_per_sample"))
    assert rows["flows_handful"]["ours"] == f"{flows[-1]:,} ({len(flows)} samples)"
    depths = [int(row["deepest_stack"]) for row in table(made, "header_depth") if row["site"] != "all"]
    assert rows["deepest_stack"]["ours"].startswith(f"{min(depths)}")
    assert rows["deepest_stack"]["verdict"] == ("agrees" if min(depths) >= 6 and max(depths) <= 12 else "differs")
    assert {row["paper"] for row in rows.values()} == {"patchwork"}
    assert result(rows, "single_site") == ["this campaign has no table infrastructure_summary", "not measured"]
    assert result(rows, "lossless_rate") == ["", "not measured"]


@pytest.mark.parametrize(("depths", "verdict"), [((6, 12), "agrees"), ((2, 8), "differs"), ((7, 13), "differs")])
def test_deepest_stacks_agree_if_those_of_all_sites_are_in_the_range_of_the_paper(tmp_path, depths, verdict):
    rows = [{"site": f"S{number}", "deepest_stack": depth, "frames": 9} for number, depth in enumerate(depths)]
    write_table(tmp_path, "header_depth", [*rows, {"site": "all", "deepest_stack": max(depths), "frames": 18}])
    assert compare(tmp_path, "patchwork")["deepest_stack"]["verdict"] == verdict


@pytest.mark.parametrize(("share", "verdict"), [(1.0, "differs"), (1.85, "agrees")])
def test_ethernet_agrees_if_it_occurs_more_than_once_per_frame(tmp_path, share, verdict):
    shares = {"all": share, "S0": 3}
    rows = [{"site": site, "header": "Ethernet", "occurrence_share": each} for site, each in shares.items()]
    write_table(tmp_path, "header_occurrence", rows)
    assert result(compare(tmp_path, "patchwork"), "ethernet") == [f"{100 * share:.3g} %", verdict]


def test_every_loss_of_the_writer_in_tables_1_and_2_has_a_row(tmp_path):
    rate = {"snaplen": 64, "frame_bytes": 512, "writer": "buffered", "rate_bps": 4 * 10**9, "lost": 0}
    write_table(tmp_path, "storage_rates", [rate, rate | {"rate_bps": 9 * 10**9, "lost": 1}, rate | {"snaplen": 200}])
    rows, published = compare(tmp_path, "patchwork"), read_rows(printed.DIRECTORY / "patchwork_writer.csv")
    losses = {f"loss_{row['snaplen']}_{row['frame_bytes']}": row for row in published}
    assert len(losses) == 8
    for name, row in losses.items():
        assert rows[name]["printed"] == f"{row['loss_percent']} % at {row['rate_gbps']} Gbps on {row['cores']} cores"
        assert rows[name]["where"] == ("table 1" if row["snaplen"] == "200" else "table 2")
    assert [name for name in losses if rows[name]["verdict"] == "not comparable"] == ["loss_200_512", "loss_64_512"]
    assert rows["loss_64_512"]["ours"] == "no loss at 4 Gbit/s"


NODE = {"cores": 2, "ram_gb": 8, "disk_gb": 50, "sample_period_s": 300}
COLLECTION = {"capture": {"buffer_kib": 32768}, "collect": NODE}


def test_settings_of_a_collection_match_its_configuration(tmp_path):
    write_file(tmp_path / "collect.json", json.dumps(COLLECTION))
    rows = compare(tmp_path, "patchwork")
    assert [result(rows, name) for name in SETTINGS] == [
        *(["2 cores", "agrees"], ["8 GB", "agrees"], ["50 GB", "differs"], ["32 MiB", "agrees"], ["300 s", "agrees"])
    ]


SETTINGS = ("node_cores", "node_ram", "node_disk", "buffer", "sample_period")


def test_settings_without_a_collection_were_not_measured(tmp_path):
    assert {compare(tmp_path, "patchwork")[name]["ours"] for name in SETTINGS} == {"this campaign has no collect.json"}
    write_file(tmp_path / "collect.json", json.dumps(COLLECTION | {"collect": NODE | {"sample_period_s": None}}))
    missing = result(compare(tmp_path, "patchwork"), "sample_period")
    assert missing == ["collect.sample_period_s is not set", "not measured"]


@pytest.mark.parametrize("damaged", ['{"collect": {"cores": "x"}}', "[]", "{", '{"collect": 5}'])
def test_damaged_record_of_a_collection_is_an_error(tmp_path, capsys, damaged):
    write_file(tmp_path / "collect.json", damaged)
    assert failed(capsys, "campaign", "papers", tmp_path, "--papers", "patchwork") == (
        f"acapella: error: {tmp_path}/collect.json: no number collect.cores; collect the campaign again"
    )


def test_samples_and_sites_match_the_tables(tmp_path):
    kinds = [("tcpdump", 200, 20), ("tcpdump", 200, 21), ("dpdk", 96, 1), ("fpga", None, None)]
    write_table(tmp_path, "capture_quality", [
        {"sample": f"s{n}", "method": method, "snaplen": snaplen, "duration_ns": length and length * 10**9}
        for n, (method, snaplen, length) in enumerate(kinds)
    ])  # fmt: skip
    sites = [{"site": site, "frames": int(site != "C")} for site in ("A", "B", "C", "all")]
    write_table(tmp_path, "header_depth", sites)
    write_table(tmp_path, "outcomes", [{"started": day, "campaign": "c", "sites": 1} for day in ("1", "1", "2")])
    rows = compare(tmp_path, "patchwork")
    assert result(rows, "sample_duration") == ["20 s (median of 3 samples)", "agrees"]
    assert result(rows, "snaplen") == ["200 B (2 of 3 samples)", "agrees"]
    assert result(rows, "snaplen_dpdk") == ["96 B (1 of 1 sample)", "differs"]
    assert rows["sites"]["ours"] == "2 sites"
    assert rows["occasions"]["ours"] == "2 collections"


@pytest.mark.parametrize(("limit", "calls", "verdicts"), [(80, 10, ["agrees"] * 2), (50, 16, ["differs"] * 2)])
def test_writer_has_the_thresholds_and_frames_per_call_of_the_storage_study(tmp_path, limit, calls, verdicts):
    run = {"background_percent": 60, "limit_percent": limit, "writer": "buffered", "written": 1280, "calls": calls}
    direct = {"background_percent": 10, "limit_percent": 20, "writer": "direct", "written": 1280, "calls": 1}
    write_table(tmp_path, "storage_runs", [row | {"memory_bytes": 256 * 10**6} for row in (run, direct)])
    rows = compare(tmp_path, "patchwork")
    assert result(rows, "thresholds") == [f"10:20, 60:{limit}", verdicts[0]]
    assert result(rows, "batch") == [f"{1280 / calls:.3g} (mean of 1 run)", verdicts[1]]
    assert result(rows, "host_memory") == ["256 MB", "not comparable"]


def test_value_agrees_if_it_rounds_to_the_printed_number(tmp_path):
    times = "2024-01-01T00:00:00Z,2024-01-02T00:00:00Z"
    records = [f"{number},{times},{'A' if number < 133 else 'A B'}\n" for number in range(200)]
    path = write_file(tmp_path / "slices.csv", "slice,start,end,sites\n" + "".join(records))
    run("campaign", "infrastructure", tmp_path, f"--slices={path}")
    rows = compare(tmp_path, "patchwork")
    assert result(rows, "single_site") == ["66.5 %", "agrees"]
    assert result(rows, "several_sites") == ["33.5 %", "agrees"]
    assert "43.5 %, a misprint of 33.5 %" in rows["several_sites"]["printed"]
    assert rows["within_24_h"]["verdict"] == "differs"


def test_report_has_the_measured_numbers_and_counts_the_others(tmp_path):
    assert papers.tables(Source(Campaign(tmp_path))) == [], "the campaign was not compared"
    write_table(tmp_path, "consistency_moves", [MOVE | {"moved": 50, "mean": -2.25, "max": 9}])
    compare(tmp_path, "choir")
    (shown,) = papers.tables(Source(Campaign(tmp_path)))
    row = ["CHOIR (SC 2025 workshops)", "table 1", "run B, mean move, packets", "1,790.54", "-2.25"]
    assert row in [row[:5] for row in shown["rows"]]
    assert f"{len(shown['rows'])} of {len(printed.rows('choir'))} printed numbers" in shown["note"]


MOVE = {"environment": "local-dual", "a": 1, "b": 2, "scope": "packet", "longest": None, "packets_common": 200}


def test_choir_has_the_moves_of_the_environment_with_two_replayers(tmp_path):
    moved = {"moved": 50, "mean": -2.25, "sigma": 1.5, "abs_mean": 3.0, "abs_sigma": 0.5, "min": -7, "max": 9}
    nothing = {"b": 3, **dict.fromkeys(moved), "moved": 0}
    other = {"environment": "quiet", "moved": 200}
    write_table(tmp_path, "consistency_moves", [MOVE | moved, MOVE | moved | nothing, MOVE | moved | other])
    rows = compare(tmp_path, "choir")
    found = [rows[f"moves_B_{name}"]["ours"] for name in moved if name != "moved"]
    assert found == ["-2.25", "1.50", "3", "0.50", "-7", "9"]
    assert rows["moves_B_max"]["verdict"] == "not comparable"
    assert rows["moves_C_max"]["ours"] == "no packet moved"
    assert result(rows, "moves_D_max") == ["table consistency_moves has no data for this number", "not measured"]
    assert result(rows, "moved_share") == ["12.5 %", "differs"]
    assert rows["kappa_shared-1x"]["ours"] == "this campaign has no table consistency_environments"


def test_kappa_without_its_environment_states_why_it_was_not_measured(tmp_path):
    write_table(tmp_path, "consistency_environments", [{"environment": "local-dual", "kappa": 0.92818}])
    rows = compare(tmp_path, "choir")
    assert result(rows, "kappa_local-dual") == ["0.9282", "agrees"]
    assert rows["kappa_shared-1x"]["ours"] == "table consistency_environments has no data for this number"


@pytest.mark.parametrize(
    ("within_ns", "share", "ours"),
    [
        (10, 0.9280, ["92.8 %", "agrees"]),
        (10, 0.93, ["93.0 %", "differs"]),
        (1000, 0.9280, ["consistency.within_ns does not begin with 10 ns", "not measured"]),
    ],
)
def test_shares_of_deltas_within_10_ns_are_compared_with_the_range_of_the_runs(tmp_path, within_ns, share, ours):
    row = {"environment": "local-dual", "within_ns": within_ns, "iat_within_share": share}
    write_table(tmp_path, "consistency_environments", [row])
    rows = compare(tmp_path, "choir")
    assert rows["within_local-dual"]["printed"] == "92.75 % to 92.90 %"
    assert result(rows, "within_local-dual") == ours


def test_rows_of_the_p4_paper_match_its_own_table(tmp_path):
    run("p4", "published", tmp_path)
    own, rows = table(tmp_path, "flowreport_published"), [*compare(tmp_path, "p4_rdma").values()]
    for name in ("what", "printed", "ours", "verdict"):
        assert [row[name] for row in rows] == [row[name] for row in own]
    assert {row["paper"] for row in rows} == {"p4_rdma"}
    assert rows[0]["name"] == "r2_rtt"


def test_osnt_has_the_largest_rate_of_truncated_frames_without_loss(tmp_path):
    rate = {"snaplen": 64, "frame_bytes": 500, "writer": "buffered", "rate_bps": 8 * 10**9, "lost": 0}
    others = [rate | {"rate_bps": 9 * 10**9, "lost": 1}, rate | {"snaplen": 0, "rate_bps": 10**10}]
    write_table(tmp_path, "storage_rates", [rate, *others])
    assert result(compare(tmp_path, "osnt"), "capture_rate") == ["2 Mframes/s", "not comparable"]


def test_sliced_wan_has_the_medians_of_the_grid(tmp_path):
    generated_transfers.grid(tmp_path)
    run("campaign", "transfers", tmp_path)
    rows, gains = compare(tmp_path, "sliced_wan"), table(tmp_path, "transfer_gain")
    ratios = sorted(float(row["retransmits_ratio"]) for row in gains if row["retransmits_ratio"])
    between = sum(2 <= ratio <= 6 for ratio in ratios)
    assert f"2 to 6 in {between} of {len(ratios)} settings" in rows["retransmits"]["ours"]
    assert rows["retransmits"]["verdict"] == ("agrees" if 2 <= ratios[len(ratios) // 2] <= 6 else "differs")
    assert rows["streams_completion"]["verdict"] == "not measured"


def test_osnt_has_the_coarsest_clock_and_the_lost_frames(tmp_path):
    made = write_tables(tmp_path / "made", sites=1)
    rows, quality = compare(made, "osnt"), table(made, "capture_quality")
    coarsest = max(int(row["clock_resolution_ns"]) for row in quality if row["clock_resolution_ns"])
    assert rows["timestamp_resolution"]["ours"].startswith(f"{coarsest:,} ns")
    lost = sum(int(row["lost_frames"]) for row in quality if row["loss_share"])
    assert rows["capture_one_port"]["verdict"] == ("differs" if lost else "agrees")


def test_osnt_has_the_loss_of_generated_packets(tmp_path):
    flow = {"flow": 0, "expected": 1000, "lost": 0, "bytes": 10**6, "clock_set": False}
    flow |= {"first_ns": 10**9, "last_ns": 2 * 10**9}
    write_table(tmp_path, "monitor_flows", [flow])
    assert result(compare(tmp_path, "osnt"), "generated_loss") == ["0 % of 1,000 packets, 8 Mbit/s", "agrees"]
    write_table(tmp_path, "monitor_flows", [flow, flow | {"flow": 1, "lost": 20}])
    assert result(compare(tmp_path, "osnt"), "generated_loss") == ["1.00 % of 2,000 packets, 16 Mbit/s", "differs"]


def test_unknown_paper_is_an_error(tmp_path, capsys):
    error = failed(capsys, "campaign", "papers", tmp_path, "--papers", "nature")
    assert "unknown nature; known: patchwork, choir, osnt, sliced_wan, p4_rdma" in error


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "paper").glob("*.yaml")), ids=lambda path: path.stem)
def test_config_of_a_paper_is_valid_and_names_its_paper(path):
    settings = yaml.safe_load(path.read_text())
    if path.stem == "patchwork_local":
        base = yaml.safe_load((path.parent / "patchwork.yaml").read_text())
        settings = base | settings | {"capture": base["capture"] | settings["capture"]}
    filled = config.checked(settings)
    paper = {"transfer": "sliced_wan"}.get(path.stem.split("_")[0], path.stem.removesuffix("_local"))
    assert filled["report"]["papers"] == [paper]
    stages = optional_stages.optional_stages(filled, filled["flowreports"])
    drawn = optional_stages.figures(stages, filled["figures"]["only"], with_samples=config.has_samples(filled))
    rest = {"outcomes", "outcome_reasons", "storage_latency", "kappa_environments", "iat_delta", "latency_delta"}
    rest |= {"monitor_flows", "monitor_latency", *registry.SEARCH_FIGURES}
    assert (paper == "osnt") == ({*registry.SEARCH_FIGURES} <= {*filled["figures"]["only"]})
    inputs = {name for name in filled["figures"]["only"] if name.startswith("infrastructure_")}  # the user's files
    assert {*drawn} <= {*filled["figures"]["only"]} <= {*drawn} | rest | inputs


def test_papers_are_compared_only_if_the_campaign_has_their_quantities():
    quantities = {"patchwork": True, "choir": False, "osnt": True}
    assert optional_stages.compared_papers(False, quantities) == []
    assert optional_stages.compared_papers(True, quantities) == ["patchwork", "osnt"]
    assert optional_stages.compared_papers(["choir", "osnt"], quantities) == ["osnt"]


def test_rate_of_two_ports_is_the_best_of_the_searches_without_loss(tmp_path):
    found = {"measure": "throughput", "frame_bytes": 1000, "reached": True}
    names = ("ports", "capture", "trial", "rate_pps", "result")
    searches = ((2, "whole", 0, 9e5, False), (2, "whole", 1, 5e5, True), (2, "truncated", 0, 6e5, True),
                (2, "none", 0, 8e5, True), (1, "whole", 0, 7e5, True))  # fmt: skip
    write_table(tmp_path, "monitor_searches", [found | dict(zip(names, row, strict=True)) for row in searches])
    row = result(compare(tmp_path, "osnt"), "capture_two_ports")
    assert row == ["4 Gbit/s whole, 4.8 Gbit/s truncated with a hash", "not comparable"]
