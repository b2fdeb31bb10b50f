"""Runs the workflow, from the sample sheet to the report, on captures without timestamps. Results have no times."""

import re

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcapng_files import write_untimed
from acapella_testing.frames.traces import busy_frames
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace, processed
from acapella_testing.svg_text import words

from acapella.cli import main as cli

SAMPLES = {"first": ("alpha", "p1"), "second": ("alpha", "p1"), "third": ("beta", "p1")}
SNAPLENS = {"first": 0, "second": 200, "third": 96}
OVER_TIME = ("throughput", "flow_times")


@pytest.fixture(scope="module")
def untimed(tmp_path_factory) -> Workplace:
    """Return two samples of one port and one of another site. Their snap lengths differ."""
    directory = tmp_path_factory.mktemp("untimed")
    place = processed(directory, SAMPLES, lambda path: write_untimed(path, busy_frames(), SNAPLENS[path.stem]))
    only = ["--only", *OVER_TIME, "flow_sizes", "--formats", "svg"]
    assert cli.main(["campaign", "figures", str(place.campaign), *only]) == 0
    assert cli.main(["campaign", "report", str(place.campaign)]) == 0
    return place


@pytest.mark.soak
def test_times_are_null_and_frames_are_counted(untimed):
    assert [row["frames"] for row in rows(untimed.campaign, "flows_per_sample")] == 3 * [len(busy_frames())]
    for path in sorted((untimed.campaign / "tables").glob("*.parquet")):
        content = pq.read_table(path)
        for name in [name for name in content.schema.names if name.endswith("_ns") or name == "rate_bps"]:
            assert content[name].null_count == content.num_rows, f"{path.stem}.{name}"
    assert [rows(untimed.campaign, name) for name in OVER_TIME] == [[], []]


def test_flows_are_stitched_without_times(untimed):
    files = [untimed.campaign / "flows" / f"{name}.parquet" for name in ("first", "second")]
    alpha_flows = [flow for file in files for flow in pq.read_table(file, columns=["flow_id", "frames"]).to_pylist()]
    stitched = [row for row in rows(untimed.campaign, "stitched_flows") if row["site"] == "alpha"]
    assert len(stitched) == len({flow["flow_id"] for flow in alpha_flows})
    assert sum(row["frames"] for row in stitched) == sum(flow["frames"] for flow in alpha_flows)
    assert rows(untimed.campaign, "top_flows")
    assert {row["scope"] for row in rows(untimed.campaign, "flow_sizes")} == {"sample", "port", "site", "campaign"}


def test_frames_without_a_time_are_counted_as_untimed_and_not_as_malformed(untimed):
    quality = {row["sample"]: row for row in rows(untimed.campaign, "capture_quality")}
    assert {row["untimed_frames"] for row in quality.values()} == {len(busy_frames())}
    assert quality["first"]["issue_frames"] == 0


@pytest.mark.parametrize("name", OVER_TIME)
def test_figures_over_time_report_missing_timestamps(untimed, name):
    assert "No data: no frame has a timestamp (the files contain none)" in words(
        (untimed.campaign / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    )


def test_figure_of_flow_sizes_is_drawn(untimed):
    printed = words((untimed.campaign / "figures" / "flow_sizes.svg").read_text(encoding="utf-8"))
    assert "Median of 17 directed flows" in printed
    assert "No data" not in printed


def test_report_names_samples_without_timestamps(untimed):
    page = (untimed.campaign / "report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert (
        f"{3 * len(busy_frames())} frames (100 %) without a timestamp in their file, in first, second, third: " in page
    )
    assert not re.search(r"\b(NaN|None|1970)\b", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S))


def test_trial_without_timestamps_is_rejected_with_the_name_of_its_capture(untimed, tmp_path):
    place = Workplace(tmp_path)
    place.configure(trials={"quiet": ["first", "second"]})
    captures = untimed.directory / "captures"
    place.sheet(*((name, "alpha", name, str(captures / f"{name}.pcapng")) for name in ("first", "second")))
    done = place.run("--cores", "1", "--", "results/tiny/kappa/quiet.json")
    assert done.returncode != 0
    assert (
        f"first.pcapng: its {len(busy_frames())} frames have no timestamps, and trials are compared by time"
        in done.stdout
    )
    assert not (place.campaign / "kappa" / "quiet.json").exists()
