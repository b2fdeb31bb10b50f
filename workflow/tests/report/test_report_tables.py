"""The key tables of the report."""

import json
import shlex

from acapella_testing.generated.generated_report import quality_with
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.figures.source import Source
from acapella.report import tables, warnings
from acapella_core import schemas


def test_important_columns_come_first(tmp_path):
    columns = {
        table["name"]: [name for name, _ in table["columns"]] for table in tables.report_tables(quality_with(tmp_path))
    }
    assert columns["top_flows"][:8] == ["#", "From", "To", "Protocol", "Bytes", "Frames", "Rate", "Duration"]
    assert columns["capture_quality"][3:6] == ["Frames", "Loss", "Lost"]
    assert columns["tcp_control"][3:8] == ["Retransmitted", "Duplicate ACKs", "Handshakes", "RTT median", "RTT 99 %"]


def test_number_of_duplicate_acks_is_shown_with_its_definition(tmp_path):
    """tshark's field of the same name counts something else."""
    (control,) = [table for table in tables.report_tables(quality_with(tmp_path)) if table["name"] == "tcp_control"]
    texts = [control["note"]]
    for name in ("tcp_control", "flows"):
        lines = (schemas.root() / "tables" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        texts += [line for line in lines if "{name: duplicate_acks," in line]
    assert len(texts) == 3
    for text in texts:
        assert "RFC 5681" in text
        assert "window" in text
        assert "tcp.analysis.duplicate_ack" in text


def test_tables_of_the_report_name_the_filter_of_all_samples(tmp_path):
    directory = write_tables(tmp_path / "made", sites=1, restriction=("filter", "filter tcp port 443"))
    source = Source(Campaign(directory))
    titles = {table["name"]: table["title"] for table in tables.report_tables(source)}
    for name in ("top_flows", "applications", "ip_versions", "tcp_control", "capture_quality"):
        assert titles[name].endswith(" (samples: filter tcp port 443)"), titles[name]
    assert "restrictions" in titles
    assert any("filter tcp port 443" in text for text in warnings.collect(source))


def test_unknown_loss_is_a_question_mark_in_the_table(tmp_path):
    table = tables.quality(quality_with(tmp_path, lost_frames=None, loss_share=None))
    column = [heading for heading, _ in table["columns"]].index("Loss")
    assert [with_spaces(row[column]) for row in table["rows"]] == ["?", "0 %", "0 %", "0 %"]


def test_tunnel_identifiers_have_readable_names(tmp_path):
    assert tables.tunnels("vxlan_vni*5*4/gtp_teid*7*9") == "VXLAN VNI 5, GTP TEID 7"
    assert tables.tunnels("") == ""
    (flows,) = [table for table in tables.report_tables(quality_with(tmp_path)) if table["name"] == "top_flows"]
    place = [name for name, _ in flows["columns"]].index("Tunnels")
    assert [row[place] for row in flows["rows"]] == [f"VXLAN VNI {rank}" for rank in range(1, 6)]


def test_tunnel_types_have_a_name():
    lines = (schemas.root() / "tunnels.tsv").read_text(encoding="utf-8").splitlines()
    assert {line.split("\t")[0] for line in lines[1:]} == set(tables.TUNNELS)


def test_largest_flows_and_samples_have_a_command_that_copies_their_frames(tmp_path):
    source = quality_with(tmp_path)
    by_name = {table["name"]: table for table in tables.report_tables(source)}
    for name, option, column in (("top_flows", "--flow", "flow_id"), ("capture_quality", "--sample", "sample")):
        rows = source.rows(name) if name == "top_flows" else source.quality
        known = {row[column] for row in rows}
        assert by_name[name]["columns"][-1] == ("Copy frames to a file", False)
        assert by_name[name]["rows"]
        for row in by_name[name]["rows"]:
            program, command, directory, flag, value, *_ = shlex.split(row[-1])
            assert (program, command, directory, flag) == ("acapella", "extract", ".", option)
            assert value in known


def test_commands_for_pseudonyms_name_the_file_that_they_need(tmp_path):
    source = quality_with(tmp_path)
    path = existing_provenance(source.campaign, "process")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["parameters"] = document.get("parameters", {}) | {"pseudonyms": True}
    path.write_text(json.dumps(document), encoding="utf-8")
    notes = [
        table["note"] for table in tables.report_tables(source) if "Copy frames to a file" in dict(table["columns"])
    ]
    assert len(notes) == 2 and all("pseudonyms.tsv" in note for note in notes)
