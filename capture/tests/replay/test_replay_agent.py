"""The agent of a replayer: sessions, hostile and failing peers, and the end of a session."""

import asyncio
import errno
import json
import os
import socket
import time

import pytest
from acapella_testing import stranger
from acapella_testing.capture.replay_agents import (
    OTHER_SECRET,
    SECRET,
    TIMEOUT_S,
    Peer,
    listening,
    secret_file,
    stand_in_argv,
)
from acapella_testing.waiting import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from acapella_capture.replay import agent as replay_agent
from acapella_capture.replay import channel
from acapella_capture.replay.agent import MAX_REFUSED_LINES, MAX_UNAUTHENTICATED, Agent, Timeouts
from acapella_core.control_lines import Challenge
from acapella_core.errors import UserError

WELCOME = {"ports": "eth1", "pacing": "bursts", "clock": {"source": None, "offset_ns": None, "synchronized": None}}


@pytest.fixture
def agent():
    with listening(stand_in_argv()) as running:
        yield running


def refused(peer: Peer, line: bytes) -> str:
    """Send a line and return why it was rejected."""
    peer.send(line)
    return peer.hear()["error"]


def test_requests_are_acknowledged_with_their_sequence_numbers(agent):
    with Peer(agent.port) as peer:
        assert peer.hear() == {"welcome": WELCOME}
        assert peer.ask(record={"from_ns": 0, "until_ns": 0})["to"] == 1
        assert peer.ask(status={})["done"]["state"] == "recording"
        assert peer.ask(stop={})["done"]["packets"] == 2
        assert peer.ask(stop={}) == {"to": 4, "error": "acapella-dpdk-replay: stop failed: nothing to stop"}
        clock = peer.ask(clock={})["done"]
        assert clock["received_ns"] <= clock["sent_ns"] <= time.time_ns()
        assert peer.ask(bye={}) == {"to": 6, "done": {}}
        assert peer.hear() == {}


def test_two_runs_in_a_row_have_their_own_departures(agent):
    """With a new connection for each, as from the command line."""
    for number in (1, 2):
        with agent.session() as peer:
            if number == 1:
                peer.record()
            at_ns = time.time_ns() + 50_000_000
            assert "done" in peer.ask(run={"at_ns": at_ns, "loops": number, "speed_ppm": 1_000_000})
            assert "no run has ended" in peer.ask(fetch={"offset": 0}).get("error", "no run has ended")
            wait_until(lambda peer=peer: peer.ask(status={})["done"]["run"] is not None, "done")
            assert peer.ask(fetch={"offset": 0})["done"]["size"] == 8 + 40 * 2 * number
            assert peer.ask(status={})["done"]["runs"] == number
            peer.ask(bye={})
            assert peer.hear() == {}


def test_saved_recordings_are_new_files_with_a_checksum(agent):
    with agent.session() as peer:
        peer.record()
        found = [peer.ask(save={})["done"] for _ in range(2)]
        assert [one["file"] for one in found] == ["recording-1.pcapng", "recording-2.pcapng"]
        saved = agent.agent.replayer.directory / "recording-1.pcapng"
        assert saved.read_bytes() == b"recording of 2 packets"
        assert saved.stat().st_mode & 0o777 == 0o600
        assert peer.ask(status={})["done"]["recording_sha256"] == found[0]["sha256"]
        peer.ask(clear={})
        assert peer.ask(status={})["done"]["recording_sha256"] is None
    assert sorted(path.name for path in agent.agent.replayer.scratch.iterdir()) == []


def test_rejected_lines_are_answered_and_counted(agent):
    with agent.session() as peer:
        first = peer.writer.line(status={})
        peer.send(first)
        assert "done" in peer.hear()
        skipped = peer.writer.line(status={})
        assert refused(peer, first) == "sequence number 1, expected 2"
        assert refused(peer, peer.writer.line(status={})) == "sequence number 3, expected 2"
        assert refused(peer, b"0" * 64 + skipped[64:]) == "the HMAC of the line is wrong"
        assert refused(peer, skipped[:-9] + b"\n") == "the HMAC of the line is wrong"
        assert refused(peer, b"x" * 50_000 + b"\n") == f"line longer than {channel.MAX_REQUEST_BYTES} bytes"
        peer.send(skipped)
        assert peer.hear()["to"] == 2
        peer.writer.sequence = 2
        assert refused(peer, peer.writer.line(shell={})) == "unknown request"
        assert peer.ask(status={})["to"] == 4
    agent.counted("sessions")
    counts = agent.agent.counts
    assert {key: counts[key] for key in ("replayed", "reordered", "forged", "oversized", "invalid")} == {
        "replayed": 1, "reordered": 1, "forged": 2, "oversized": 1, "invalid": 1,
    }  # fmt: skip
    assert counts["requests"] == 3


def test_connection_with_too_many_rejected_lines_is_closed(agent):
    with agent.session() as peer:
        for _ in range(MAX_REFUSED_LINES):
            assert "HMAC" in refused(peer, b"\n")
        assert peer.hear() == {}
    with Peer(agent.port) as peer:
        assert "welcome" in peer.hear()


def first_lines(challenge: Challenge) -> dict[str, bytes]:
    """Return first lines of unauthenticated peers, by their fault."""
    wrong = channel.Keys.derive(OTHER_SECRET, challenge, challenge).proof
    other = channel.Keys.derive(SECRET, Challenge("0" * 64), challenge).proof
    return {
        "empty": b"\n",
        "no member": b"{}\n",
        "too long": b"x" * 50_000 + b"\n",
        "nested": b"[" * 4000 + b"\n",
        "wrong secret": channel.encode_proof(challenge, wrong),
        "other challenge": channel.encode_proof(challenge, other),
        "no proof": channel.encode_challenge(challenge),
        "request": b'{"quit": {}}\n',
    }


@pytest.mark.parametrize("what", first_lines(Challenge("1" * 64)))
def test_connection_without_the_secret_gets_an_error_and_no_session(agent, what):
    with Peer(agent.port, None) as stranger:
        stranger.send(first_lines(stranger.challenge)[what] + b'{"quit": {}}\n')
        assert json.loads(stranger.line()) == {"error": "the proof of the secret is wrong: --secret FILE"}
        assert stranger.line() == b""
    assert agent.agent.counts["without_secret"] == 1
    assert not agent.agent.counts["sessions"]
    with Peer(agent.port) as owner:
        assert "welcome" in owner.hear()


def test_recorded_session_cannot_be_replayed(agent):
    """An unauthenticated peer repeats the bytes of a controller on a new connection."""
    with agent.session() as owner:
        ours = Challenge.new()
        keys = channel.Keys.derive(SECRET, owner.challenge, ours)
        recorded = channel.encode_proof(ours, keys.proof) + channel.Writer(keys.from_controller).line(quit={})
    with Peer(agent.port, None) as stranger:
        assert stranger.challenge != owner.challenge
        stranger.send(recorded)
        assert set(json.loads(stranger.line())) == {"error"}
        assert stranger.line() == b""
    assert not agent.agent.over.is_set()


@settings(max_examples=60)
@given(content=st.lists(st.binary(max_size=200) | st.just(b"\n") | st.just(b"{}\n"), max_size=8))
def test_agent_survives_arbitrary_bytes_of_unauthenticated_peers(agent, content):
    with socket.create_connection(("127.0.0.1", agent.port), timeout=TIMEOUT_S) as stranger:
        try:
            stranger.sendall(b"".join(content))
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass  # the agent closes a connection with unread bytes
    with Peer(agent.port) as owner:
        assert "welcome" in owner.hear()
        assert owner.ask(status={})["done"]["state"] == "idle"
        owner.ask(bye={})
        assert owner.hear() == {}


@settings(max_examples=60)
@given(texts=st.lists(st.binary(max_size=120).filter(lambda text: b"\n" not in text), max_size=8))
def test_agent_survives_arbitrary_authenticated_bytes(agent, texts):
    """Even a controller that has the secret can only send requests."""
    with agent.session() as peer:
        for text in texts:
            peer.send(channel.mac_of(peer.keys.from_controller, text) + b" " + text + b"\n")
            assert set(peer.hear()) == {"to", "error"}
        assert peer.ask(status={})["to"] == 1
        peer.ask(bye={})
        assert peer.hear() == {}


def test_silent_peer_is_disconnected_before_authentication():
    with listening(stand_in_argv(), Timeouts(proof_s=0.2, silent_s=TIMEOUT_S)) as agent, Peer(agent.port, None) as slow:
        slow.send(b'{"challenge": ')
        assert slow.line() == b""
        assert agent.agent.counts["silent"] == 1


def test_silent_connections_do_not_block_a_controller(agent):
    silent = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(MAX_UNAUTHENTICATED + 20)]
    with Peer(agent.port) as owner:
        assert "welcome" in owner.hear()
    agent.counted("crowded_out", 20)
    for one in silent:
        one.close()


def test_second_controller_is_refused_while_the_first_is_connected(agent):
    with agent.session() as first:
        with Peer(agent.port) as second:
            assert second.hear()["error"].startswith("busy: another controller is connected from 127.0.0.1:")
            assert second.hear() == {}
        assert first.ask(status={})["to"] == 1
        first.ask(bye={})
        assert first.hear() == {}
    with Peer(agent.port) as third:
        assert "welcome" in third.hear()
    assert agent.agent.counts["busy"] == 1


def test_lost_controller_ends_its_recording_and_the_agent_can_be_controlled_again(agent):
    with agent.session() as lost:
        lost.ask(record={"from_ns": 0, "until_ns": 0})
    agent.logged("lost: stopping its recording or run")
    with agent.session() as again:
        assert again.ask(status={})["done"]["state"] == "idle"


def test_recording_that_could_not_be_stopped_is_logged_and_counted(agent, monkeypatch):
    program = agent.agent.replayer.program
    with agent.session() as lost:
        lost.ask(record={"from_ns": 0, "until_ns": 0})

        def no_reply(*_: object) -> None:
            raise UserError("no reply for 20 s", where="acapella-dpdk-replay")

        monkeypatch.setattr(program, "command", no_reply)
    agent.logged("replay: the recording or run may continue: acapella-dpdk-replay: no reply for 20 s")
    assert agent.agent.counts["failed_stops"] == 1


def test_controller_may_be_silent_until_the_planned_end_of_its_run():
    """The run takes longer than the agent otherwise waits."""
    with listening(stand_in_argv(), Timeouts(proof_s=TIMEOUT_S, silent_s=2)) as agent, agent.session() as peer:
        peer.record()
        at_ns = time.time_ns() + 10**8
        assert "done" in peer.ask(run={"at_ns": at_ns, "loops": 4, "speed_ppm": 1})  # 1 s for each loop
        program = agent.agent.replayer.program
        wait_until(lambda: program.latest("done", 0) is not None, "the end of the run")
        assert program.latest("done", 0)["stopped_by"] == "complete"
        assert peer.hear() == {}  # silent after the run
        assert agent.agent.counts["silent"] == 1


def test_controller_that_is_silent_long_before_its_run_is_lost():
    with listening(stand_in_argv(), Timeouts(proof_s=TIMEOUT_S, silent_s=0.3)) as agent, agent.session() as peer:
        peer.record()
        peer.ask(run={"at_ns": time.time_ns() + 600 * 10**9, "loops": 1, "speed_ppm": 1})
        assert peer.hear() == {}
        agent.logged("lost: stopping its recording or run")


def test_silent_controller_is_treated_as_lost():
    with listening(stand_in_argv(), Timeouts(proof_s=TIMEOUT_S, silent_s=0.3)) as agent:
        with agent.session() as silent:
            silent.send(silent.writer.line(run={"at_ns": 1, "loops": 1, "speed_ppm": 1}))
            silent.hear()
            assert silent.hear() == {}
        assert agent.agent.counts["silent"] == 1
        with Peer(agent.port) as again:
            assert "welcome" in again.hear()


def test_recording_continues_after_bye(agent):
    with agent.session() as first:
        first.ask(record={"from_ns": 0, "until_ns": 0})
        first.ask(bye={})
        assert first.hear() == {}
    with agent.session() as second:
        assert second.ask(status={})["done"]["state"] == "recording"
    agent.logged("disconnected")
    with agent.session() as third:  # the second one has started nothing
        assert third.ask(status={})["done"]["state"] == "recording"


def test_quit_ends_the_agent(agent):
    with agent.session() as peer:
        assert peer.ask(quit={}) == {"to": 1, "done": {}}
    assert agent.agent.over.wait(TIMEOUT_S) and agent.agent.failure == []


def test_end_of_the_program_ends_the_agent_with_its_reason():
    with listening(stand_in_argv(fault="status:die")) as agent, agent.session() as peer:
        assert "ended: link of net_fake0 is down" in peer.ask(status={})["error"]
        assert agent.agent.over.wait(TIMEOUT_S)
        assert "link of net_fake0 is down" in str(agent.agent.failure[0])


def unreadable(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    ("function", "request_", "why"),
    [
        ("sha256_of", {"save": {}}, "save failed: Input/output error"),
        ("part_of", {"fetch": {"offset": 0}}, "fetch failed: Input/output error"),
        ("copy", {"save": {}}, "recording-1.pcapng: cannot write: Input/output error"),
    ],
)
def test_disk_error_is_answered_logged_and_counted(agent, monkeypatch, function, request_, why):
    with agent.session() as peer:
        peer.record()
        peer.run_to_end()
        monkeypatch.setattr(replay_agent, function, unreadable)
        assert peer.ask(**request_)["error"].endswith(why)
        agent.logged(why)
        control = peer.ask(status={})["done"]["control"]
        assert (control["failed"], control["system_errors"]) == (1, 1)
        monkeypatch.undo()
        assert "done" in peer.ask(**request_)


def test_missing_departures_file_is_named(agent):
    with agent.session() as peer:
        peer.record()
        peer.run_to_end()
        peer.ask(fetch={"offset": 0})
        path = agent.agent.replayer.fetched
        path.unlink()
        assert peer.ask(fetch={"offset": 0})["error"] == f"fetch failed: {path}: No such file or directory"


def test_secret_is_neither_sent_nor_logged(agent):
    """Records all bytes of a session in both directions."""
    sent = b""
    with Peer(agent.port, None) as peer:
        ours = Challenge.new()
        keys = channel.Keys.derive(SECRET, peer.challenge, ours)
        writer = channel.Writer(keys.from_controller)
        lines = channel.encode_proof(ours, keys.proof) + writer.line(status={}) + writer.line(bye={})
        peer.send(lines)
        while line := peer.line():
            sent += line
    printed = "\n".join(agent.log) + repr(agent.agent)
    for value in (SECRET.value, keys.from_agent.hex(), keys.from_controller.hex()):
        assert value.encode() not in sent + lines and value not in printed
    assert b'"to":2' in sent


def test_other_users_can_neither_read_the_secret_nor_control_the_agent(agent, tmp_path_factory):
    path = secret_file(tmp_path_factory.mktemp("open"))
    number, answer = stranger.approach(path, agent.port, '{"quit": {}}\n')
    assert number == "13"
    assert '"error"' in answer
    assert "welcome" not in answer
    assert not agent.agent.over.is_set()


def test_address_in_use_is_one_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--listen 127.0.0.1:{port}: cannot listen: .*in use"):
            asyncio.run(Agent(None, SECRET).serve("127.0.0.1", port))
