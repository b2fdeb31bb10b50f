"""The agent of a replayer: sessions, hostile and failing peers, and the end of a session."""

import asyncio
import contextlib
import errno
import functools
import json
import os
import socket
import time
from unittest.mock import Mock

import pytest
from acapella_testing.capture.replay_agents import (
    OTHER_SECRET,
    PATIENT,
    SECRET,
    TIMEOUT_S,
    Peer,
    listening,
    secret_file,
    stand_in_argv,
)
from acapella_testing.runs import other_user
from acapella_testing.waiting import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from acapella_capture.replay import agent as replay_agent
from acapella_capture.replay import channel
from acapella_capture.replay.agent import MAX_REFUSED_LINES, MAX_UNAUTHENTICATED, Agent, Timeouts
from acapella_core.control_lines import Challenge, Secret
from acapella_core.errors import UserError

WELCOME = {"ports": "eth1", "pacing": "bursts", "clock": {"source": None, "offset_ns": None, "synchronized": None}}


@pytest.fixture
def agent(request):
    """Provide an agent with a stand-in. A parameter replaces its timeouts."""
    with listening(stand_in_argv(), getattr(request, "param", PATIENT)) as running:
        yield running


@pytest.fixture
def peer(agent):
    """Provide a controller that the agent has welcomed."""
    with agent.session() as welcomed:
        yield welcomed


def with_timeout(silent_s: float, proof_s: float = TIMEOUT_S) -> pytest.MarkDecorator:
    """Return the mark of a test whose agent does not wait long for a controller."""
    return pytest.mark.parametrize("agent", [Timeouts(proof_s, silent_s)], indirect=True, ids=["impatient"])


def refused(peer: Peer, line: bytes) -> str:
    """Send a line and return why it was rejected."""
    peer.send(line)
    return peer.receive()["error"]


def check_welcome(agent) -> None:
    """Check that the agent accepts a controller."""
    with Peer(agent.port) as owner:
        assert "welcome" in owner.receive()


def test_requests_are_acknowledged_with_their_sequence_numbers(agent):
    with Peer(agent.port) as peer:
        assert peer.receive() == {"welcome": WELCOME}
        assert peer.ask(record={"from_ns": 0, "until_ns": 0})["to"] == 1
        assert peer.ask(status={})["done"]["state"] == "recording"
        assert peer.ask(stop={})["done"]["packets"] == 2
        assert peer.ask(stop={}) == {"to": 4, "error": "acapella-dpdk-replay: stop failed: nothing to stop"}
        clock = peer.ask(clock={})["done"]
        assert clock["received_ns"] <= clock["sent_ns"] <= time.time_ns()
        assert peer.ask(bye={}) == {"to": 6, "done": {}}
        assert peer.receive() == {}


def test_two_runs_in_a_row_have_their_own_departures(agent):
    """Each run has a new connection, as from the command line."""
    for number in (1, 2):
        with agent.session() as peer:
            if number == 1:
                peer.record()
            run = {"at_ns": time.time_ns() + 50_000_000, "loops": number, "speed_ppm": 1_000_000}
            assert "done" in peer.ask(run=run)
            assert "no run has ended" in peer.ask(fetch={"offset": 0}).get("error", "no run has ended")
            wait_until(lambda peer=peer: peer.ask(status={})["done"]["run"] is not None, "done")
            assert peer.ask(fetch={"offset": 0})["done"]["size"] == 8 + 40 * 2 * number
            assert peer.ask(status={})["done"]["runs"] == number
            assert peer.leave() == {}


def test_saved_recordings_are_new_files_with_a_checksum(agent, peer):
    peer.record()
    found = [peer.ask(save={})["done"] for _ in range(2)]
    assert [each["file"] for each in found] == ["recording-1.pcapng", "recording-2.pcapng"]
    saved = agent.agent.replayer.directory / "recording-1.pcapng"
    assert saved.read_bytes() == b"recording of 2 packets"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert peer.ask(status={})["done"]["recording_sha256"] == found[0]["sha256"]
    peer.ask(clear={})
    assert peer.ask(status={})["done"]["recording_sha256"] is None
    assert sorted(path.name for path in agent.agent.replayer.scratch.iterdir()) == []


def test_rejected_lines_are_answered_and_counted(agent, peer):
    first = peer.writer.line(status={})
    peer.send(first)
    assert "done" in peer.receive()
    skipped = peer.writer.line(status={})
    assert refused(peer, first) == "sequence number 1, expected 2"
    assert refused(peer, peer.writer.line(status={})) == "sequence number 3, expected 2"
    assert refused(peer, b"0" * 64 + skipped[64:]) == "the HMAC of the line is wrong"
    assert refused(peer, skipped[:-9] + b"\n") == "the HMAC of the line is wrong"
    assert refused(peer, b"x" * 50_000 + b"\n") == f"line longer than {channel.MAX_REQUEST_BYTES} bytes"
    peer.send(skipped)
    assert peer.receive()["to"] == 2
    peer.writer.sequence = 2
    assert refused(peer, peer.writer.line(shell={})) == "unknown request"
    assert peer.ask(status={})["to"] == 4
    counts = agent.agent.counts
    assert {key: counts[key] for key in ("replayed", "reordered", "forged", "oversized", "invalid")} == {
        "replayed": 1, "reordered": 1, "forged": 2, "oversized": 1, "invalid": 1,
    }  # fmt: skip
    assert counts["requests"] == 3


def test_connection_with_too_many_rejected_lines_is_closed(agent, peer):
    assert all("HMAC" in refused(peer, b"\n") for _ in range(MAX_REFUSED_LINES))
    assert peer.receive() == {}
    check_welcome(agent)


def proof_with(secret: Secret, answered: Challenge | None, challenge: Challenge) -> bytes:
    """Return the first line of a controller with this secret, whose challenge equals the agent's.

    ``answered``: the challenge that the proof answers (default: the agent's).
    """
    return channel.encode_proof(challenge, channel.Keys.derive(secret, answered or challenge, challenge).proof)


@pytest.mark.parametrize(
    "line",
    [
        *(b"\n", b"{}\n", b"x" * 50_000 + b"\n", b"[" * 4000 + b"\n", b'{"quit": {}}\n'),
        functools.partial(proof_with, OTHER_SECRET, None),
        functools.partial(proof_with, SECRET, Challenge("0" * 64)),
        channel.encode_challenge,
    ],
    ids=["empty", "no member", "too long", "nested", "request", "wrong secret", "other challenge", "no proof"],
)
def test_connection_without_the_secret_gets_an_error_and_no_session(agent, line):
    with Peer(agent.port, None) as stranger:
        stranger.send((line(stranger.challenge) if callable(line) else line) + b'{"quit": {}}\n')
        assert json.loads(stranger.line()) == {"error": "the proof of the secret is wrong; check --secret FILE"}
        assert stranger.line() == b""
    assert agent.agent.counts["without_secret"] == 1
    assert not agent.agent.counts["sessions"]
    check_welcome(agent)


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
    with (
        socket.create_connection(("127.0.0.1", agent.port), timeout=TIMEOUT_S) as stranger,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),  # the agent closes a connection with unread bytes
    ):
        stranger.sendall(b"".join(content))
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            pass
    with Peer(agent.port) as owner:
        assert "welcome" in owner.receive()
        assert owner.ask(status={})["done"]["state"] == "idle"
        assert owner.leave() == {}


@settings(max_examples=60)
@given(texts=st.lists(st.binary(max_size=120).filter(lambda text: b"\n" not in text), max_size=8))
def test_agent_survives_arbitrary_authenticated_bytes(agent, texts):
    """Even a controller with the secret can only send requests."""
    with agent.session() as peer:
        for text in texts:
            peer.send(channel.mac_of(peer.keys.from_controller, text) + b" " + text + b"\n")
            assert set(peer.receive()) == {"to", "error"}
        assert peer.ask(status={})["to"] == 1
        assert peer.leave() == {}


@with_timeout(silent_s=TIMEOUT_S, proof_s=0.2)
def test_silent_peer_is_disconnected_before_authentication(agent):
    with Peer(agent.port, None) as slow:
        slow.send(b'{"challenge": ')
        assert slow.line() == b""
        assert agent.agent.counts["silent"] == 1


def test_silent_connections_do_not_block_a_controller(agent):
    silent = [socket.create_connection(("127.0.0.1", agent.port)) for _ in range(MAX_UNAUTHENTICATED + 20)]
    check_welcome(agent)
    agent.counted("evicted", 20)
    for connection in silent:
        connection.close()


def test_second_controller_is_refused_while_the_first_is_connected(agent, peer):
    with Peer(agent.port) as second:
        assert second.receive()["error"].startswith("busy: another controller is connected from 127.0.0.1:")
        assert second.receive() == {}
    assert peer.ask(status={})["to"] == 1
    assert peer.leave() == {}
    check_welcome(agent)
    assert agent.agent.counts["busy"] == 1


def test_lost_controller_ends_its_recording_and_the_agent_can_be_controlled_again(agent):
    with agent.session() as lost:
        lost.ask(record={"from_ns": 0, "until_ns": 0})
    agent.logged("lost: stopping its recording or run")
    with agent.session() as again:
        assert again.ask(status={})["done"]["state"] == "idle"


def test_recording_that_could_not_be_stopped_is_logged_and_counted(agent, monkeypatch):
    with agent.session() as lost:
        lost.ask(record={"from_ns": 0, "until_ns": 0})
        no_reply = UserError("no reply for 20 s", where="acapella-dpdk-replay")
        monkeypatch.setattr(agent.agent.replayer.program, "command", Mock(side_effect=no_reply))
    agent.logged("replay: the recording or run may continue: acapella-dpdk-replay: no reply for 20 s")
    assert agent.agent.counts["failed_stops"] == 1


@pytest.mark.soak
@with_timeout(silent_s=2)
def test_controller_may_be_silent_until_the_planned_end_of_its_run(agent, peer):
    """The run takes longer than the agent otherwise waits."""
    peer.record()
    # 1 s for each loop
    assert "done" in peer.ask(run={"at_ns": time.time_ns() + 10**8, "loops": 3, "speed_ppm": 1})
    program = agent.agent.replayer.program
    assert wait_until(lambda: program.latest("done", 0), "the end of the run")["stopped_by"] == "complete"
    assert peer.receive() == {}  # silent after the run
    assert agent.agent.counts["silent"] == 1


@with_timeout(silent_s=0.3)
def test_controller_that_is_silent_long_before_its_run_is_lost(agent, peer):
    peer.record()
    peer.ask(run={"at_ns": time.time_ns() + 600 * 10**9, "loops": 1, "speed_ppm": 1})
    assert peer.receive() == {}
    agent.logged("lost: stopping its recording or run")


@with_timeout(silent_s=0.3)
def test_silent_controller_is_treated_as_lost(agent, peer):
    assert "error" in peer.ask(run={"at_ns": 1, "loops": 1, "speed_ppm": 1})
    assert peer.receive() == {}
    assert agent.agent.counts["silent"] == 1
    check_welcome(agent)


def test_recording_continues_after_bye(agent):
    with agent.session() as first:
        first.ask(record={"from_ns": 0, "until_ns": 0})
        assert first.leave() == {}
    with agent.session() as second:
        assert second.ask(status={})["done"]["state"] == "recording"
    agent.logged("disconnected")
    with agent.session() as third:  # the second one has started nothing
        assert third.ask(status={})["done"]["state"] == "recording"


def test_quit_ends_the_agent(agent, peer):
    assert peer.ask(quit={}) == {"to": 1, "done": {}}
    assert agent.agent.over.wait(TIMEOUT_S) and agent.agent.failure == []


def test_agent_exits_with_the_reason_why_the_program_ended():
    with listening(stand_in_argv(fault="status:die")) as agent, agent.session() as peer:
        assert "ended: link of net_fake0 is down" in peer.ask(status={})["error"]
        assert agent.agent.over.wait(TIMEOUT_S)
        assert "link of net_fake0 is down" in str(agent.agent.failure[0])


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
        peer.run_to_end()
        monkeypatch.setattr(replay_agent, function, Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
        assert peer.ask(**request_)["error"].endswith(why)
        agent.logged(why)
        control = peer.ask(status={})["done"]["control"]
        assert (control["failed"], control["system_errors"]) == (1, 1)
        monkeypatch.undo()
        assert "done" in peer.ask(**request_)


def test_missing_departures_file_is_named(agent, peer):
    peer.run_to_end()
    peer.ask(fetch={"offset": 0})
    path = agent.agent.replayer.fetched
    path.unlink()
    assert peer.ask(fetch={"offset": 0})["error"] == f"fetch failed: {path}: No such file or directory"


def test_secret_is_neither_sent_nor_logged(agent):
    """Records all bytes of a session in both directions."""
    with Peer(agent.port, None) as peer:
        ours = Challenge.new()
        keys = channel.Keys.derive(SECRET, peer.challenge, ours)
        writer = channel.Writer(keys.from_controller)
        lines = channel.encode_proof(ours, keys.proof) + writer.line(status={}) + writer.line(bye={})
        peer.send(lines)
        sent = b"".join(iter(peer.line, b""))
    printed = "\n".join(agent.log) + repr(agent.agent)
    secrets = (SECRET.value, keys.from_agent.hex(), keys.from_controller.hex())
    assert not [value for value in secrets if value.encode() in sent + lines or value in printed]
    assert b'"to":2' in sent


def test_other_users_can_neither_read_the_secret_nor_control_the_agent(agent, tmp_path_factory):
    number, answer = other_user.try_access(secret_file(tmp_path_factory.mktemp("open")), agent.port, '{"quit": {}}\n')
    assert number == "13"
    assert '"error"' in answer
    assert "welcome" not in answer
    assert not agent.agent.over.is_set()


def test_address_in_use_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--listen 127.0.0.1:{port}: cannot listen: .*in use"):
            asyncio.run(Agent(None, SECRET).serve("127.0.0.1", port))
