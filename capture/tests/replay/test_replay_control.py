"""Controlling replayers: actions on one or several agents, clocks with injected offsets, skew, and failing agents."""

import contextlib
import json
import re
import socket
import time
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.capture.replay_agents import (
    OTHER_SECRET,
    SECRET,
    TIMEOUT_S,
    Peer,
    listening,
    stand_in_argv,
)
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.replay import actions, channel, controller, messages
from acapella_capture.replay.actions import RunPlan
from acapella_capture.replay.agent import Timeouts
from acapella_capture.replay.controller import Group, Remote
from acapella_core.control_lines import Challenge
from acapella_core.errors import OUTSIDE, UserError, exit_code_of

MS = 1_000_000


@contextlib.contextmanager
def agents(*options: dict):
    """Run agents with stand-ins that have these options; the clock of an agent is ahead by option `clock` (ns), too."""
    with contextlib.ExitStack() as running:
        yield [
            running.enter_context(listening(stand_in_argv(**each), clock_ns=each.get("clock", 0))) for each in options
        ]


def controlled(found) -> Group:
    return Group([agent.name for agent in found], SECRET)


@contextlib.contextmanager
def recorded(found):
    """Control agents and give every stand-in a recording of two packets."""
    with controlled(found) as group:
        group.request(messages.Record())
        group.request(messages.Stop())
        yield group


@pytest.fixture
def lines() -> list[str]:
    """Provide a list of printed lines."""
    return []


def silent(_line: str) -> None:
    """Print nothing."""


def before(monkeypatch, method: str, action) -> None:
    """Have a method of a remote call ``action`` with its arguments first."""
    original = getattr(Remote, method)
    monkeypatch.setattr(Remote, method, lambda *arguments: (action(*arguments), original(*arguments))[1])


@contextlib.contextmanager
def impatient_and_slow(monkeypatch, method: str, delay):
    """Run two agents. The first does not wait long for requests; ``delay`` runs before a method of the second one.

    It is called with the first agent and the arguments of the method.
    """
    with listening(stand_in_argv(), Timeouts(TIMEOUT_S, 5)) as first, listening(stand_in_argv()) as second:
        before(monkeypatch, method, lambda remote, *words: remote.name == second.name and delay(first, *words))
        yield first, second
        assert first.agent.counts["silent"] == 0


def tables_of(directory, *numbers: int) -> list[pa.Table]:
    """Return the departures of these replayers."""
    return [pq.read_table(directory / f"d-{number}.parquet") for number in numbers]


def test_actions_print_an_acknowledgment_of_every_replayer(lines):
    with agents({}, {}) as found, controlled(found) as group:
        requests = (messages.Record(), messages.Stop(), messages.Clear())
        assert [actions.send_request(group, request, lines.append) for request in requests] == [0, 0, 0]
    names = [agent.name for agent in found]
    assert [line.split(": ")[:2] for line in lines] == [
        [name, action] for action in ("record", "stop", "clear") for name in names
    ]
    assert lines[2].endswith("stopped_by stop, packets 2")
    assert lines[4] == f"{names[0]}: clear: done"


def test_status_has_state_counters_and_clock(lines):
    with agents({"clock": 3600 * 10**9}) as found, recorded(found) as group:
        assert actions.status(group, lines.append) == 0
        text = "\n".join(lines)
        assert f"{found[0].name}: idle, eth1" in text
        assert f"{found[0].name}: recording: packets 2\n" in text
        assert f"{found[0].name}: port: name net_fake0, received 7\n" in text
        assert re.search(r"control: connections 1, requests \d+, sessions 1", text)
        assert re.search(r"clock 3600 s ahead of this machine's, \+/- .* \(round trips\)", text)
        assert "its own synchronization is unknown" in text


def test_replayer_clock_synchronization_is_reported():
    remote = Remote("a:1", SECRET, {"clock": {"source": "chrony", "offset_ns": -1200, "synchronized": True}})
    line = actions.clock_line(remote, actions.Offset(-5, 7))
    assert line == "a:1: clock 5 ns behind this machine's, +/- 7 ns (round trips); chrony: -1.2 us synchronized"
    assert actions.node_clock(remote) == remote.welcome["clock"]
    remote.welcome["clock"] = {"source": ["\n"], "offset_ns": "x", "synchronized": 7}
    assert actions.clock_line(remote, actions.Offset(5, 7)).isprintable()
    assert actions.node_clock(remote) == {}


def test_replayers_start_together_and_their_skew_is_reported(tmp_path, lines):
    """The clock of the second is 40 ms ahead: its packets depart 40 ms early, and 7 ms late by its own clock."""
    with agents({}, {"clock": 40 * MS, "late": 7 * MS}) as found, recorded(found) as group:
        assert actions.run(group, RunPlan(loops=3, departures=tmp_path / "d.parquet"), lines.append) == 0
    text = "\n".join(lines)
    first, second = (agent.name for agent in found)
    assert f"{first}: 6 packets, 6 sent" in text
    assert f"{second}: departure error: median 7 ms, 99th percentile 7 ms, largest 7 ms" in text
    assert f"{second}: 6 packets more than 1 us late, 2 preemptions, largest gap of the polling loop 4.321 us" in text
    tables = tables_of(tmp_path, 1, 2)
    assert tables[0]["requested_ns"] == tables[1]["requested_ns"], "one absolute start"
    assert {table.schema.metadata[b"clock_source"] for table in tables} == {b"round trips"}
    offset, error = (int(tables[1].schema.metadata[b"clock_%s_ns" % key]) for key in (b"offset", b"error"))
    assert abs(offset - 40 * MS) <= error
    assert next(line for line in lines if line.startswith("skew: ")).startswith(f"skew: {second} ")


@pytest.mark.parametrize(("clock", "late"), [(0, 0), (250 * MS, 0), (-250 * MS, 3 * MS), (0, 90 * MS)])
def test_injected_skew_is_within_the_uncertainty(monkeypatch, clock, late):
    outcomes = []
    monkeypatch.setattr(actions, "report", lambda given, show: outcomes.extend(given) or 0)
    with agents({}, {"clock": clock, "late": late}) as found, recorded(found) as group:
        actions.run(group, RunPlan(), silent)
    deviations = [
        actions.skew.deviation(outcome.remote.name, outcome.summary.errors_ns, outcome.clock) for outcome in outcomes
    ]
    (skew,) = actions.skew.skews(deviations)
    assert abs(skew.skew_ns - (late - clock)) <= skew.error_ns
    assert abs(outcomes[1].clock.offset_ns - clock) <= outcomes[1].clock.error_ns


def test_unsent_packets_give_exit_code_1(lines):
    with agents({"refuse": 1}) as found, recorded(found) as group:
        assert actions.run(group, RunPlan(), lines.append) == 1
    assert f"{found[0].name}: 2 packets, 1 sent (1 ring_full)" in lines


def test_packets_dropped_by_the_kernel_or_missed_by_a_bridge_give_warnings_and_exit_code_1(capsys):
    with agents({"lost": 1, "missed": 3}) as found, recorded(found) as group:
        assert actions.run(group, RunPlan(), silent) == 1
    start, warnings = f"acapella: warning: {found[0].name}: ", capsys.readouterr().err
    assert f"{start}the kernel did not send all packets of net_fake0: 1 " in warnings
    assert f"{start}net_fake0: packets were not received during the run: 3 missed by the device\n" in warnings
    assert warnings.count("warning") == 2


def test_clock_error_of_the_synchronization_program_is_included(tmp_path, lines):
    error_ns = 3600 * 10**9
    with agents({}, {"error": error_ns}) as found, recorded(found) as group:
        assert actions.run(group, RunPlan(departures=tmp_path / "d.parquet"), lines.append) == 0
    (skew,) = (line for line in lines if line.startswith("skew: "))
    assert "+/- 3600 s (not distinguishable from 0)" in skew
    errors = [int(table.schema.metadata[b"clock_error_ns"]) for table in tables_of(tmp_path, 1, 2)]
    assert errors[0] < error_ns < errors[1]


def test_replayer_whose_departures_are_fetched_need_not_wait_for_the_others(tmp_path, monkeypatch):
    """The fetch from the second one takes longer than the first one waits for a request."""
    wait = lambda first, _target: first.logged("disconnected")  # noqa: E731
    with impatient_and_slow(monkeypatch, "fetch_departures", wait) as found, recorded(found) as group:
        assert actions.run(group, RunPlan(departures=tmp_path / "d.parquet"), silent) == 0
    assert [table.num_rows for table in tables_of(tmp_path, 1, 2)] == [2, 2]


@pytest.mark.parametrize("request_", [messages.Save(), messages.Quit()])
def test_replayer_that_waits_for_a_slow_one_is_not_lost(monkeypatch, request_):
    """The second one responds after the first one has received requests, has timed out, or has ended."""

    def wait(first, request) -> None:
        counts, over = first.agent.counts, first.agent.over
        enough = counts["requests"] + 8
        if request == request_:
            wait_until(lambda: over.is_set() or counts["silent"] or counts["requests"] >= enough, "first")

    monkeypatch.setattr(controller, "KEEPALIVE_S", 0.05)
    with impatient_and_slow(monkeypatch, "request", wait) as found, recorded(found) as group:
        assert actions.send_request(group, request_, silent) == 0


def test_departures_are_kept_if_bye_fails(tmp_path, monkeypatch, capsys):
    before(monkeypatch, "request", lambda remote, request: request == messages.Disconnect() and remote.interrupt())
    with agents({}, {}) as found:
        with recorded(found) as group:
            assert actions.run(group, RunPlan(departures=tmp_path / "d.parquet"), silent) == 0
        warnings = sorted(line for line in capsys.readouterr().err.splitlines() if "warning" in line)
        assert len(warnings) == 2
        for agent, line in zip(sorted(found, key=lambda each: each.name), warnings, strict=True):
            assert line.startswith(f"acapella: warning: replayer {agent.name}: ")
            assert line.endswith("; its departures are complete")
    assert [table.num_rows for table in tables_of(tmp_path, 1, 2)] == [2, 2]


def test_departures_of_the_others_are_kept_if_one_fetch_fails(tmp_path, monkeypatch, lines):
    with agents({}, {}, {}) as found:
        names = [agent.name for agent in found]
        before(monkeypatch, "fetch_departures", lambda remote, _: remote.name == names[1] and remote.interrupt())
        with pytest.raises(UserError, match=f"replayer {names[1]}: "), recorded(found) as group:
            actions.run(group, RunPlan(departures=tmp_path / "d.parquet"), lines.append)
    assert {path.name for path in tmp_path.iterdir()} == {"d-1.parquet", "d-3.parquet"}
    assert [table.num_rows for table in tables_of(tmp_path, 1, 3)] == [2, 2]
    assert f"{names[0]}: 2 packets, 2 sent" in lines
    assert f"{names[2]}: 2 packets, 2 sent" in lines
    assert any(line.startswith(f"skew: {names[2]} ") for line in lines)


def test_first_replayer_is_not_silent_while_the_last_one_connects(monkeypatch):
    """The last one connects after the first one has received requests, or has timed out."""

    def wait(first) -> None:
        wait_until(lambda: first.agent.counts["silent"] or first.agent.counts["requests"] >= 8, "first")

    monkeypatch.setattr(controller, "KEEPALIVE_S", 0.05)
    with impatient_and_slow(monkeypatch, "_connect", wait) as found, recorded(found):
        pass


def test_lost_peer_is_detected_by_the_kernel():
    with agents({}) as found, controlled(found) as group:
        connection = group.remotes[0]._socket
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        limit_ms = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert limit_ms == (controller.IDLE_S + controller.PROBE_S * controller.PROBES) * 1000
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        kept = [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options]
        assert kept == [controller.IDLE_S, controller.PROBE_S, controller.PROBES]


def test_start_in_the_past_is_rejected():
    past = r"the start is in the past, or less than 0\.1 s away; choose a later time"
    with agents({}) as found, recorded(found) as group, pytest.raises(UserError, match=past):
        actions.run(group, RunPlan(at=lambda now: now - 1), print)


def test_nothing_is_requested_during_a_run(monkeypatch, lines):
    """The run takes one second, longer than the interval of requests before and after it."""
    requested = []
    with agents({}, {}) as found, recorded(found) as group:
        before(monkeypatch, "request", lambda *_: requested.append(time.time_ns()))
        assert actions.run(group, RunPlan(speed_ppm=1), lines.append) == 0
    start_ns = next(int(line.split()[1]) for line in lines if line.startswith("start: "))
    assert not [at_ns for at_ns in requested if start_ns <= at_ns < start_ns + 10**9]
    assert max(requested) >= start_ns + 10**9


def test_replayer_that_ends_during_a_run_is_noticed_without_a_request():
    with agents({}) as found, recorded(found) as group:
        (remote,) = group.remotes
        assert not remote.is_lost()
        found[0].agent.request_stop()
        wait_until(remote.is_lost, "the end of the connection")
        scheduled = [{"period_ns": 600 * 10**9, "loops": 1}]
        with pytest.raises(UserError, match=f"replayer {found[0].name}: "):
            actions.wait_for_end(group, time.time_ns(), scheduled, [actions.Offset(0, 0)], time.time_ns)
        remote.close()


def test_replayer_that_rejects_a_request_stops_the_others():
    """The second one has no recording."""
    with agents({}, {}) as found, controlled(found) as group:
        group.remotes[0].request(messages.Record())
        group.remotes[0].request(messages.Stop())
        with pytest.raises(UserError, match=f"replayer {found[1].name}: .*nothing to replay"):
            actions.run(group, RunPlan(at=lambda now: now + 600 * 10**9), print)
        assert [remote.request(messages.Status())["state"] for remote in group.remotes] == ["idle", "idle"]


def test_program_that_dies_during_a_run_is_a_one_line_error_and_stops_the_others():
    with agents({}, {"fault": "done:die"}) as found:
        with pytest.raises(UserError, match=f"replayer {found[1].name}: ") as raised, recorded(found) as group:
            actions.run(group, RunPlan(loops=2), silent)
        assert "\n" not in str(raised.value)
        wait_until(lambda: found[0].agent._connected is None, "the end of the session")
        with found[0].session() as again:
            assert again.ask(status={})["done"]["state"] == "idle"


def test_run_is_stopped_if_the_controller_is_interrupted(monkeypatch):
    with agents({}) as found:
        monkeypatch.setattr(actions.time, "sleep", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), recorded(found) as group:
            actions.run(group, RunPlan(at=lambda now: now + 600 * 10**9), silent)
        monkeypatch.undo()
        found[0].logged("disconnected")
        with controlled(found) as group:
            assert group.request(messages.Status())[0]["state"] == "idle"


def test_unreachable_replayer_is_a_system_error():
    with socket.create_server(("127.0.0.1", 0)) as missing:
        port = missing.getsockname()[1]
    with pytest.raises(UserError, match=f"replayer 127.0.0.1:{port}: connection failed: Connection refused") as raised:
        Group([f"127.0.0.1:{port}"], SECRET).__enter__()
    assert exit_code_of(raised.value) == OUTSIDE


def test_wrong_secret_is_an_error():
    with agents({}) as found, pytest.raises(UserError, match="the proof of the secret is wrong"):
        Group([found[0].name], OTHER_SECRET).__enter__()


def test_busy_replayer_is_an_error():
    with agents({}) as found, Peer(found[0].port) as first:
        first.receive()
        with pytest.raises(UserError, match=r"busy: another controller is connected from 127\.0\.0\.1"):
            controlled(found).__enter__()


@contextlib.contextmanager
def impostor(answers):
    """Run a server that sends these lines to one client, after its challenge.

    Yield its address, and a list that contains what the client has sent once the server has ended.
    """
    server, received = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        with server, server.accept()[0] as peer, contextlib.suppress(OSError):
            peer.settimeout(TIMEOUT_S)
            peer.sendall(answers[0])
            if len(answers) > 1:
                received.append(peer.recv(4096))
            for answer in answers[1:]:
                peer.sendall(answer)
            peer.shutdown(socket.SHUT_WR)
            while part := peer.recv(4096):
                received.append(part)

    with in_background(serve):
        yield f"127.0.0.1:{server.getsockname()[1]}", received


CHALLENGE = channel.encode_challenge(Challenge("3" * 64))


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "not a JSON object"),
        ([b""], "the connection was closed"),
        ([b"x" * (channel.MAX_RESPONSE_BYTES + 10)], "line too long"),
        ([CHALLENGE, channel.Writer(b"guess").line(welcome={})], "the HMAC of the line is wrong"),
        ([CHALLENGE, b'{"error": "\\u001b[2J"}\n'], r"\?\[2J"),
        ([CHALLENGE, b'{"welcome": {}}\n'], "must have exactly error"),
    ],
)
def test_handshake_with_an_impostor_is_an_error(answers, why):
    """A listening program without the secret cannot complete the handshake, and receives no request."""
    with impostor(answers) as (name, received), pytest.raises(UserError, match=why) as raised:
        Group([name], SECRET).__enter__()
    assert str(raised.value).isprintable()
    lines = b"".join(received).splitlines()
    assert [json.loads(line).keys() for line in lines] == [{"challenge", "proof"}] * (len(answers) > 1)


@pytest.mark.parametrize(
    "done",
    [
        *({"size": size, "part": ""} for size in (100, -1)),
        *({"size": size, "part": "AAAA"} for size in (2, 1 << 50)),
        *({"part": "AAAA"}, {"size": 3, "part": "?"}),
    ],
)
def test_departures_with_a_missing_part_are_an_error(monkeypatch, tmp_path, done):
    remote = Remote("a:1", SECRET)
    monkeypatch.setattr(remote, "request", lambda request: done)
    with pytest.raises(UserError, match="replayer a:1: "):
        remote.fetch_departures(tmp_path / "d")
