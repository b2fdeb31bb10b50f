"""Tests the key tables of the report."""

import json
import re
import shlex

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.generated_report import quality_with
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.new_files import write_file
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.figures.source import Source
from acapella.report import tables, warnings
from acapella_core import schemas


def shown(source: Source) -> dict[str, dict]:
    """Return the tables of the report by name."""
    return {table["name"]: table for table in tables.report_tables(source)}


def test_important_columns_come_first(tmp_path):
    columns = {name: [*dict(table["columns"])] for name, table in shown(quality_with(tmp_path)).items()}
    assert columns["top_flows"][:8] == ["#", "From", "To", "Protocol", "Bytes", "Frames", "Rate", "Duration"]
    assert columns["capture_quality"][3:6] == ["Frames", "Lost frames", "Loss share"]
    assert columns["tcp_control"][3:8] == ["Retransmitted", "Duplicate ACKs", "Handshakes", "RTT median", "RTT 99 %"]


def test_duplicate_ack_count_is_shown_with_its_definition(tmp_path):
    """tshark's field of the same name counts something else."""
    files = [(schemas.root() / "tables" / f"{name}.yaml").read_text("utf-8") for name in ("tcp_control", "flows")]
    texts = re.findall(r"^.*\{name: duplicate_acks,.*$", "\n".join(files), re.M)
    assert len(texts) == 2
    for text in (*texts, shown(quality_with(tmp_path))["tcp_control"]["note"]):
        assert "RFC 5681" in text
        assert "window" in text
        assert "tcp.analysis.duplicate_ack" in text


def test_report_tables_name_the_filter_of_all_samples(tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=1, filter="tcp port 443")))
    titles = {name: table["title"] for name, table in shown(source).items()}
    named = {name for name, title in titles.items() if title.endswith(" (samples: filter tcp port 443)")}
    assert named >= {"top_flows", "applications", "ip_versions", "tcp_control", "capture_quality"}
    assert "restrictions" in titles
    assert any("filter tcp port 443" in text for text in warnings.collect(source))


def test_unknown_loss_is_a_question_mark_in_the_table(tmp_path):
    table = tables.quality(quality_with(tmp_path, lost_frames=None, loss_share=None))
    column = [heading for heading, _ in table["columns"]].index("Loss share")
    assert [with_spaces(row[column]) for row in table["rows"]] == ["?", "0 %", "0 %", "0 %"]


def test_tunnel_identifiers_have_readable_names(tmp_path):
    assert tables.tunnels("vxlan_vni*5*4/gtp_teid*7*9") == "VXLAN VNI 5, GTP TEID 7"
    assert tables.tunnels("") == ""
    flows = shown(quality_with(tmp_path))["top_flows"]
    place = [*dict(flows["columns"])].index("Tunnels")
    assert [row[place] for row in flows["rows"]] == [f"VXLAN VNI {rank}" for rank in range(1, 6)]


def test_tunnel_types_have_a_name():
    assert {row["type"] for row in read_rows(schemas.root() / "tunnels.tsv")} == set(tables.TUNNELS)


@pytest.mark.parametrize(
    ("name", "option", "column"), [("top_flows", "--flow", "flow_id"), ("capture_quality", "--sample", "sample")]
)
def test_largest_flows_and_samples_have_a_command_that_copies_their_frames(tmp_path, name, option, column):
    source = quality_with(tmp_path)
    table = shown(source)[name]
    assert table["columns"][-1] == ("Copy frames to a file", False)
    assert table["rows"]
    for row in table["rows"]:
        *words, value = shlex.split(row[-1])[:5]
        assert words == ["acapella", "extract", ".", option]
        assert value in {own[column] for own in source.rows(name)}


def test_commands_for_pseudonyms_name_the_file_that_they_need(tmp_path):
    source = quality_with(tmp_path)
    path = existing_provenance(source.campaign, "process")
    document = json.loads(path.read_text(encoding="utf-8"))
    write_file(path, json.dumps(document | {"parameters": document.get("parameters", {}) | {"pseudonyms": True}}))
    with_commands = [table for table in shown(source).values() if "Copy frames to a file" in dict(table["columns"])]
    assert len(with_commands) == 2
    assert all("pseudonyms.tsv" in table["note"] for table in with_commands)
