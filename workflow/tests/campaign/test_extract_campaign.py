"""Extracts frames of campaigns and releases: the catalog determines the captures."""

import gzip
import shutil

import pytest
from acapella_testing import processes
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import processed, run
from acapella_testing.oracles.naive_captures import packets
from acapella_testing.runs.workflow_run import CAPTURES

from acapella.cli.main import main

# SYN packets: in the acap, and as a display filter of tshark
SYN, SYN_FILTER = "tcp_flags & 18 = 2", "tcp.flags.syn == 1 && tcp.flags.ack == 0"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a campaign of the small captures."""
    captures = {path.name.removesuffix(".pcap.gz"): str(path) for path in sorted(CAPTURES.glob("*.gz"))}
    rows = [(name, *name.split("-"), path) for name, path in captures.items()]
    return processed(tmp_path_factory.mktemp("extract"), rows, "--pseudonyms")


@pytest.fixture
def campaign(finished, tmp_path):
    """Return a copy of the campaign, including its captures."""
    return shutil.copytree(finished, tmp_path / "mine")


def extract(source, target, *options: str) -> int:
    """Run the command."""
    return main(["extract", str(source), "-o", str(target), *options])


def filtered(capture, target, condition: str):
    """Return the packets of a capture that tshark's display filter selects."""
    processes.run("tshark", "-r", capture, "-Y", condition, "-F", "pcapng", "-w", target, check=True)
    return frames_of(target)


def frames_of(capture) -> list[tuple]:
    """Return times, lengths, link types and bytes, without the names that tshark gives to interfaces."""
    return [(p.time_s, p.wire_len, p.link_type, p.frame) for p in packets(capture)]


@pytest.mark.soak
def test_condition_selects_frames_of_all_captures(campaign, tmp_path, capsys):
    assert extract(campaign, tmp_path / "out.pcapng", "--where", SYN) == 0
    captures = sorted(CAPTURES.glob("*.gz"))
    expected = [p for capture in captures for p in filtered(capture, tmp_path / "e.pcapng", SYN_FILTER)]
    assert frames_of(tmp_path / "out.pcapng") == expected
    assert f"{len(expected)} frames of " in capsys.readouterr().out


def test_columns_of_the_sample_are_known(campaign, tmp_path):
    assert extract(campaign, tmp_path / "out.pcapng", "--where", f"site = 'alpha' and port = 'p2' and {SYN}") == 0
    assert frames_of(tmp_path / "out.pcapng") == filtered(
        CAPTURES / "alpha-p2.pcap.gz", tmp_path / "e.pcapng", SYN_FILTER
    )


def test_sample_is_copied_whole(campaign, tmp_path):
    assert extract(campaign, tmp_path / "out.pcap", "--sample", "beta-p1") == 0
    assert (tmp_path / "out.pcap").read_bytes() == gzip.decompress((CAPTURES / "beta-p1.pcap.gz").read_bytes())


def test_frame_numbers_need_a_sample(campaign, tmp_path, capsys):
    assert extract(campaign, tmp_path / "out.pcapng", "--frames", "1") == 2
    assert "--sample" in capsys.readouterr().err
    assert extract(campaign, tmp_path / "out.pcapng", "--frames", "1", "--sample", "beta-p1") == 0
    assert len(packets(tmp_path / "out.pcapng")) == 1
    capsys.readouterr()
    assert extract(campaign, tmp_path / "out.pcapng", "--frames", "1000", "--sample", "beta-p1") == 2
    assert "beta-p1: --frames 1000: no such frame: the last frame has number " in capsys.readouterr().err


def test_pseudonyms_and_flow_ids_of_the_tables_select_frames(campaign, tmp_path, capsys):
    """The tables of this campaign have pseudonyms, its catalog does not."""
    mapping = {row["true_sample"]: row["sample"] for row in read_rows(campaign / "pseudonyms.tsv")}
    assert extract(campaign, tmp_path / "out.pcap", "--sample", mapping["beta-p1"]) == 0
    assert (tmp_path / "out.pcap").read_bytes() == gzip.decompress((CAPTURES / "beta-p1.pcap.gz").read_bytes())
    flows = read_rows(campaign / "tables" / "top_flows.csv")
    for flow in (flows[0], flows[len(flows) // 2]):
        assert extract(campaign, tmp_path / "out.pcapng", "--flow", flow["flow_id"]) == 0
        assert len(packets(tmp_path / "out.pcapng")) >= int(flow["frames"]) > 0, "frames of all samples of its site"
    assert extract(campaign, tmp_path / "none.pcapng", "--flow", flows[0]["flow_id"], "--where", "false") == 0
    capsys.readouterr()
    assert extract(campaign, tmp_path / "no.pcapng", "--flow", "0" * 32) == 2
    assert not (tmp_path / "no.pcapng").exists()
    assert f"{campaign}: --flow {'0' * 32}: no such flow; " in capsys.readouterr().err


def test_unknown_sample_and_campaign_are_reported(campaign, tmp_path, capsys):
    assert extract(campaign, tmp_path / "out.pcapng", "--sample", "gamma") == 2
    assert "no sample 'gamma' with an acap; to list them: acapella sql" in capsys.readouterr().err
    assert extract(campaign, tmp_path / "out.pcapng", "--sample", "bta-p1") == 2
    assert "; did you mean beta-p1?" in capsys.readouterr().err
    assert extract(f"{campaign}x", tmp_path / "out.pcapng", "--where", "true") == 2
    assert f"x: no such capture or campaign; did you mean {campaign}?" in capsys.readouterr().err


def raw_capture(campaign, sample: str):
    """Return the path of a sample's capture."""
    (found,) = [path for path in (campaign / "raw").iterdir() if path.name.startswith(f"{sample}.pcap")]
    return found


def test_missing_capture_is_reported_in_one_line(campaign, tmp_path, capsys):
    raw_capture(campaign, "beta-p1").unlink()
    assert extract(campaign, tmp_path / "out.pcapng", "--where", "true") == 2
    error = capsys.readouterr().err
    assert "no such capture" in error
    assert error.count("\n") == 1
    assert extract(campaign, tmp_path / "out.pcapng", "--where", "site = 'alpha'") == 0


def test_missing_acap_is_reported_in_one_line_if_it_is_needed(campaign, tmp_path, capsys):
    (acap,) = (campaign / "acap").glob("beta-p1.parquet")
    acap.unlink()
    acap.symlink_to(tmp_path / "cache" / "00" / f"{0:064x}_acap.parquet")
    assert extract(campaign, tmp_path / "out.pcapng", "--where", "true") == 2
    error = capsys.readouterr().err
    assert ": frames of 1 of " in error
    assert " samples are missing (acap/beta-p1.parquet: no longer in the cache of digests); run snakemake" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.pcapng").exists()
    assert extract(campaign, tmp_path / "out.pcapng", "--sample", "beta-p1", "--frames", "1") == 2
    assert ": frames of 1 of 1 sample are missing (" in capsys.readouterr().err
    assert extract(campaign, tmp_path / "out.pcapng", "--sample", "alpha-p2") == 0


def with_changed_end(content: bytes) -> bytes:
    """Return the content with a different last byte."""
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("positions", [True, False])
def test_changed_capture_is_reported_in_one_line(campaign, tmp_path, capsys, positions, monkeypatch):
    capture = raw_capture(campaign, "beta-p1")
    content = with_changed_end(gzip.decompress(capture.read_bytes()))
    capture.unlink()
    capture.write_bytes(gzip.compress(content))
    if not positions:
        monkeypatch.setattr("acapella.digest.acap_files.positions_of", lambda _: None)
    assert extract(campaign, tmp_path / "out.pcapng", "--where", "true") == 2
    error = capsys.readouterr().err
    assert "changed since the digest" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.pcapng").exists()


@pytest.mark.soak
def test_released_acaps_select_frames_of_the_released_captures(finished, tmp_path):
    public = tmp_path / "public"
    run("release", finished, "-o", public)
    assert extract(public, tmp_path / "out.pcapng", "--where", SYN) == 0
    captures = sorted((public / "captures").iterdir())
    expected = [p for capture in captures for p in filtered(capture, tmp_path / "e.pcapng", SYN_FILTER)]
    assert expected
    assert frames_of(tmp_path / "out.pcapng") == expected
    captures[0].write_bytes(with_changed_end(captures[0].read_bytes()))
    assert extract(public, tmp_path / "changed.pcapng", "--where", "true") == 2
