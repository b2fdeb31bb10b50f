"""Partial tables: which samples get evidence of congestion, and how digests are read."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.footer_reads import footer_reads, log_reads
from acapella_testing.generated import tiny
from acapella_testing.runs.in_process import call_before

from acapella.campaign import analyze
from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.common import queries
from acapella_core.errors import UserError

ROW_GROUP = 122_880  # rows of a row group of DuckDB
FLOWS = {
    "b.1": [tiny.flow(0, 1), tiny.flow(0, 0, src="10.0.0.3")],  # the name has a suffix
    "c": [tiny.flow(2, 3)],
    "a": [tiny.flow(1, 1), tiny.flow(1, 3, src="10.0.0.4")],
}


@pytest.fixture
def made(tmp_path):
    """Return a campaign of three samples; only c has a mirror with a known capacity."""
    mirror = {"port_rate_bps": 10**9, "dropped_kernel": 0, "dropped_interface": 0}
    for name, flows in FLOWS.items():
        known = mirror | {"congestion": {"capacity_bps": 10**9}} if name == "c" else {}
        tiny.add_sample(tmp_path / "made", name, flows=flows, **known)
    return Campaign(tmp_path / "made")


def partials(campaign: Campaign, samples, output, **options) -> dict[str, pa.Table]:
    """Return the partial tables of samples that are analyzed together."""
    return {path.stem: pq.read_table(path) for path in analyze.make_partials(campaign, samples, output, **options)}


def test_evidence_is_computed_only_for_samples_with_a_known_capacity(made, tmp_path, monkeypatch):
    manifests = []
    call_before(monkeypatch, analyze, "gather_evidence", lambda _con, files, _given: manifests.append(files))
    found = partials(made, [*FLOWS], tmp_path / "out")["congestion"]
    assert manifests == [[made.manifest("c")]]
    assert found["sample"].to_pylist() == ["a", "b.1", "c"]
    *unknown, judged = found.to_pylist()
    for row in unknown:
        assert {key for key, value in row.items() if value is not None} == {"sample", "verdict"}
        assert row["verdict"] == "unknown"
    assert judged["capacity_bps"] == 10**9
    assert judged["tcp_share"] is not None
    assert partials(made, ["a"], tmp_path / "alone")["congestion"].schema == found.schema


def test_each_footer_is_read_once(made, tmp_path, monkeypatch):
    """DuckDB logs its reads. The evidence of mirrored samples has a separate database."""
    connect, connections = queries.connect, []

    def logged(*arguments, **options):
        connections.append(log_reads(connect(*arguments, **options)))
        return connections[-1]

    monkeypatch.setattr(queries, "connect", logged)
    monkeypatch.setattr(analyze, "SMALL_BYTES", 0)  # digests are views
    partials(made, [*FLOWS], tmp_path / "out")
    (connection,) = connections
    assert footer_reads(connection) == {(name, kind): 1 for name in FLOWS for kind in ("acap", "flows")}


@pytest.mark.soak
@pytest.mark.parametrize("small_bytes", [0, 1 << 30])
def test_partials_of_samples_analyzed_together_equal_those_of_each_alone(made, tmp_path, monkeypatch, small_bytes):
    monkeypatch.setattr(analyze, "SMALL_BYTES", small_bytes)
    together = partials(made, [*FLOWS], tmp_path / "together")
    for sample in FLOWS:
        for name, alone in partials(made, [sample], tmp_path / sample).items():
            found = together[name].filter(pa.compute.equal(together[name]["sample"], sample))
            assert found.equals(alone), (sample, name)


@pytest.mark.soak
def test_each_table_can_be_computed_alone(made, tmp_path):
    for name, expected in partials(made, [*FLOWS], tmp_path / "all").items():
        assert partials(made, [*FLOWS], tmp_path / name, only=[name]) == {name: expected}
    with pytest.raises(UserError, match="no such table"):
        partials(made, ["a"], tmp_path / "out", only=["stack"])


@pytest.mark.soak
@pytest.mark.parametrize("small_bytes", [0, 1 << 30], ids=["views", "tables"])
def test_partials_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch, small_bytes):
    """DuckDB starts a thread for each row group. Query quality relies on the order of frames."""
    monkeypatch.setattr(analyze, "SMALL_BYTES", small_bytes)
    campaign = Campaign(tmp_path / "campaign")
    for name in ("a", "b"):
        tiny.add_sample(campaign.directory, name, flows=[tiny.flow(1, 2)])
        repeat_frames(campaign.acap(name), 4 * ROW_GROUP)
    one, four = (partials(campaign, ["a", "b"], tmp_path / f"{n}", threads=n) for n in (1, 4))
    assert one == four
    assert one["quality"]["time_reversals"].to_pylist() == [4 * ROW_GROUP // 5] * 2


def repeat_frames(path, number: int) -> None:
    """Replace the frames of an acap with copies of the first, in several row groups; every fifth is 9 ns too late."""
    table = pq.read_table(path)
    frame, count = table.take(np.zeros(number, dtype=np.int64)), np.arange(number)
    for column, values in (("frame", count + 1), ("ts_ns", tiny.at(1) + 2 * count + np.where(count % 5 == 0, 9, 0))):
        index = frame.schema.get_field_index(column)
        frame = frame.set_column(index, frame.schema.field(column), pa.array(values, frame.schema.field(column).type))
    pq.write_table(frame.replace_schema_metadata(table.schema.metadata), path, row_group_size=ROW_GROUP)


def test_timestamps_are_compared_within_a_sample(made, tmp_path):
    """The last frame of `a` is later than the first one of `b.1`, which is in the next file."""
    found = partials(made, [*FLOWS], tmp_path / "out")["quality"]
    counted = {row["sample"]: (row["equal_stamps"], row["time_reversals"]) for row in found.to_pylist()}
    assert counted == {"a": (2, 0), "b.1": (2, 0), "c": (0, 0)}


def test_frames_in_a_different_order_are_an_error(made, tmp_path):
    path = made.acap("a")
    table = pq.read_table(path)
    pq.write_table(table.take(list(range(len(table)))[::-1]).replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(UserError, match="frames are not in order"):
        partials(made, ["a", "c"], tmp_path / "out")


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"congestion": 5})])
def test_invalid_manifest_is_an_error(made, tmp_path, content):
    made.manifest("a").write_text(content)
    with pytest.raises(UserError, match=r"a\.json: is not a manifest"):
        partials(made, ["a", "c"], tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no sample; specify the names"),
        (["--keep", "a"], "no sample, but no directory; "),
        (["--sample", "a", "c"], "several samples, but no directory; "),
    ],
)
def test_samples_and_their_directory_are_required(made, capsys, words, reason):
    assert main(["campaign", "analyze", str(made.directory), *words]) == 2
    assert capsys.readouterr().err.startswith(f"acapella: error: {reason}")


@pytest.mark.parametrize("words", [["analyze", "--sample", "c"], ["index"]])
def test_digest_removed_from_the_cache_is_named(made, capsys, words):
    made.acap("c").unlink()
    made.acap("c").symlink_to("/cache/removed")
    assert main(["campaign", words[0], str(made.directory), *words[1:]]) == 2
    expected = f"acapella: error: {made.acap('c')}: the target of this link does not exist: /cache/removed; run "
    assert capsys.readouterr().err.startswith(expected)
