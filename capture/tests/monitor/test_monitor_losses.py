"""Loss events between two places: packets are recognized by a hash of the bytes that no hop changes."""

import random

import numpy as np
import pyarrow.parquet as pq
import pytest
from acapella_testing.capture.commands import run_command
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.tunnel_frames import checksum
from acapella_testing.generated import stamped_traffic as traffic
from acapella_testing.generated.stamped_traffic import START_NS, Flow, Schedule
from acapella_testing.new_files import write_file
from acapella_testing.oracles import naive_captures

from acapella_capture.monitor import command, losses
from acapella_core.errors import UserError

FLOWS = [Flow(120, 9_000), Flow(80, 11_000, encapsulation="mpls"), Flow(60, 13_000, encapsulation="vlan")]


def routed(frame: bytes) -> bytes:
    """Return a frame after a router: different MAC addresses, no tags, and a smaller TTL in the innermost header."""
    at = frame.index(b"\x45\x00")
    header = frame[at : at + 8] + bytes([frame[at + 8] - 1, frame[at + 9], 0, 0]) + frame[at + 12 : at + 20]
    summed = header[:10] + checksum(header).to_bytes(2) + header[12:]
    return bytes.fromhex("02000000000a02000000000b0800") + summed + frame[at + 20 :]


@pytest.mark.soak
@pytest.mark.usefixtures("monitor_on_path")
def test_loss_events_on_a_routed_path_match_the_schedule(tmp_path, capsys):
    arrived, outcome = traffic.write(tmp_path, FLOWS, Schedule(seed=11, loss=0.15, jitter_ns=40_000))
    kept = {frame for _, frame in outcome.arrived}
    write_pcap(arrived, [(ns, routed(frame)) for ns, frame in outcome.arrived])
    run_command(command, arrived, "--sent", tmp_path / "sent.pcap", "-o", tmp_path / "tables")
    rows = pq.read_table(tmp_path / "tables" / "monitor_losses.parquet").to_pylist()
    missing = [number for number, (_, frame) in enumerate(traffic.sent(FLOWS)) if frame not in kept]
    assert [number for row in rows for number in range(row["first_packet"], row["last_packet"] + 1)] == missing
    assert len(missing) == outcome.lost > 20
    assert all(row["packets"] == row["last_packet"] - row["first_packet"] + 1 for row in rows)
    assert f"{outcome.lost} packets did not arrive, in {len(rows)} loss events" in capsys.readouterr().out
    run_command(command, arrived, "-o", tmp_path / "tables")  # without --sent
    assert not list((tmp_path / "tables").glob("monitor_losses.*"))


@pytest.mark.usefixtures("monitor_on_path")
def test_packet_file_replaces_the_capture_of_sent_packets(tmp_path, capsys):
    arrived, outcome = traffic.write(tmp_path, FLOWS, Schedule(seed=12, loss=0.2))
    run_command(command, tmp_path / "sent.pcap", "--packets", tmp_path / "sent.parquet")
    run_command(command, arrived, "--sent", tmp_path / "sent.parquet")
    assert f"{outcome.lost} packets did not arrive" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "sent.parquet")
    assert table["packet"].to_pylist() == list(range(260))
    assert table["arrival_ns"].to_pylist() == [ns for ns, _ in traffic.sent(FLOWS)]
    assert {(row["flow"], row["sequence"]) for row in table.to_pylist()} == {
        (index, sequence) for index, flow in enumerate(FLOWS) for sequence in range(flow.packets)
    }


@pytest.mark.usefixtures("monitor_on_path")
def test_packet_file_requires_the_rules_used_to_write_it(tmp_path, capsys):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule(seed=14))
    rule = ("--rule", "udp,*,*,*,*")
    run_command(command, arrived, "--packets", tmp_path / "all.parquet")
    run_command(command, arrived, "--packets", tmp_path / "some.parquet", *rule)
    run_command(command, arrived, "--sent", tmp_path / "some.parquet", *rule)
    assert "0 packets did not arrive" in capsys.readouterr().out
    for name, words in (("all", rule), ("some", ())):
        with pytest.raises(UserError, match="selected with different rules"):
            run_command(command, arrived, "--sent", tmp_path / f"{name}.parquet", *words)


def records(identities: list[int]) -> np.ndarray:
    """Return records with these identities."""
    created = np.zeros(len(identities), losses.RECORD)
    created["identity_low"] = identities
    created["wire_bytes"] = 100
    created["arrival_ns"] = START_NS + np.arange(len(identities))
    return created


@pytest.mark.parametrize("seed", range(20))
def test_last_ones_of_equal_packets_count_as_lost(seed):
    draw = random.Random(seed)
    sent, arrived = ([draw.randint(1, 6) for _ in range(draw.randint(0, 30))] for _ in range(2))
    wanted = [sent[: at + 1].count(identity) > arrived.count(identity) for at, identity in enumerate(sent)]
    missing = losses.lost(records(sent), records(arrived))
    assert missing.tolist() == wanted
    rows = losses.events(records(sent), missing)
    assert sum(row["packets"] for row in rows) == sum(wanted)
    assert all(wanted[row["first_packet"] : row["last_packet"] + 1] for row in rows)


def test_different_table_is_not_a_packet_file(tmp_path):
    pq.write_table(losses.table_of([records([1])]).drop_columns("flow"), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="not a table of packets"):
        losses.read(tmp_path / "other.parquet")


def test_incomplete_log_is_an_error(tmp_path):
    with pytest.raises(UserError, match="not a complete log"):
        losses.read_log(write_file(tmp_path / "log", losses.MAGIC + bytes(41)))


@pytest.mark.usefixtures("monitor_on_path")
def test_truncated_captures_of_both_ends_identify_lost_packets(tmp_path, capsys):
    flows = [Flow(90, 9_000, 200, "prbs31"), Flow(70, 11_000, 300)]
    _, outcome = traffic.write(tmp_path, flows, Schedule(seed=13, loss=0.2, jitter_ns=30_000, damage=0.1))
    for name in ("sent", "arrived"):
        run_command(command, tmp_path / f"{name}.pcap", "--write", tmp_path / f"{name}.pcapng", "--snaplen", 70)
    assert [
        (packet.time_s * 10**9, packet.frame, packet.wire_len)
        for packet in naive_captures.packets(tmp_path / "arrived.pcapng")
    ] == [(ns, frame[:70], len(frame)) for ns, frame in outcome.arrived]
    capsys.readouterr()
    run_command(command, tmp_path / "arrived.pcapng", "--sent", tmp_path / "sent.pcapng")
    # a damaged packet differs from the packet that was sent, so that packet counts as lost
    assert f"{outcome.lost + outcome.damaged} packets did not arrive" in capsys.readouterr().out


@pytest.mark.usefixtures("monitor_on_path")
def test_existing_capture_is_not_overwritten(tmp_path):
    arrived, _ = traffic.write(tmp_path, FLOWS, Schedule())
    old = write_file(tmp_path / "old.pcapng", b"other data")
    with pytest.raises(UserError, match=r"old\.pcapng"):
        run_command(command, arrived, "--write", old)
    assert old.read_bytes() == b"other data"
