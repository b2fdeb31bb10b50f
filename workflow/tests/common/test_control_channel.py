"""Tests the control channel: valid messages, allocation of queue pairs, and malicious or failing peers."""

import asyncio
import contextlib
import errno
import functools
import hashlib
import itertools
import json
import socket
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest
from acapella_testing.control_peers import PATIENT, SECRET, TIMEOUT_S, Rings, collector_at, listening
from acapella_testing.runs import other_user
from acapella_testing.waiting import in_background

from acapella.collector.control import MAX_REJECTED_LINES, MAX_UNAUTHENTICATED, ControlServer
from acapella.collector.sessions import Sessions, ring_size
from acapella.common import control_channel as channel
from acapella.common.control_channel import Ended, Hello, QueuePair, Session, decode, encode
from acapella.p4.control_plane import ControlPlane, register_commands
from acapella_core import control_lines
from acapella_core.control_lines import InvalidMessage
from acapella_core.errors import UserError

HELLO = Hello("flowstats", 2, "a1")
QUEUE_PAIR = {"index": 0, "number": 7, "key": 99, "base": 4096, "size": 384, "psn": 5}
SESSION = {"session": 1, "report_bytes": 192, "epoch": 5, "queue_pairs": [QUEUE_PAIR]}
CHALLENGE_AND_PROOF = channel.Challenge("c4a11e" * 10 + "0000"), channel.Proof("9400f0" * 10 + "0000")


def proof_line(secret: str, challenge: str) -> bytes:
    """Return the proof for a challenge as defined in RFC 2104: H(K xor opad, H(K xor ipad, text)), 64-byte blocks."""
    key = bytes.fromhex(secret).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + challenge.encode()).digest()
    return b'{"proof": "%s"}\n' % hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest().encode()


class Client:
    """A control plane that can send arbitrary lines. It sends the proof first if it has the secret."""

    def __init__(self, port, secret=SECRET):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._lines = self._socket.makefile("rb")
        self.challenge = json.loads(self._lines.readline())["challenge"]
        if secret:
            self.send(proof_line(secret.value, self.challenge))

    def send(self, line: bytes):
        self._socket.sendall(line)

    def receive(self) -> dict:
        """Return the next message that is not a keepalive; {} at the end of the connection."""
        return next((message for message in map(json.loads, self._lines) if "alive" not in message), {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self._socket.close()


def sessions_of(rings: Rings, queue_pairs: int = 1, **options) -> Sessions:
    return Sessions(rings, queue_pairs=queue_pairs, ring_bytes=500, **options)


def test_messages_round_trip():
    session = Session(1, 192, 5, (QueuePair(**QUEUE_PAIR),))
    for message in (
        *CHALLENGE_AND_PROOF,
        HELLO,
        session,
        channel.Written(3),
        channel.Alive(0),
        Ended(1, None),
        Ended(1, 5),
    ):
        assert decode(encode(message).rstrip(b"\n")) == message
    assert decode(b'{"error": "a\\u001b[31m"}') == channel.Error("a?[31m")


def with_members(**parts) -> dict:
    """Return a session with the members of its queue pair changed."""
    return {**SESSION, "queue_pairs": [{**QUEUE_PAIR, **parts}]}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b"1",
        b"\xff\xfe{}",
        b'{"alive": NaN}',
        b'{"alive": 1, "alive": 2}',
        b'{"alive": true}',
        b'{"alive": 1.0}',
        b'{"alive": -1}',
        b'{"alive": ' + b"9" * 5000 + b"}",
        b'{"alive": 1, "hello": {}}',
        b'{"goodbye": 1}',
        b'{"secret": "' + b"0" * 64 + b'"}',
        b'{"proof": 1}',
        b'{"proof": "0"}',
        b'{"challenge": "' + b"G" * 64 + b'"}',
        b"[" * 16_000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"error": "' + b"x" * control_lines.MAX_LINE_BYTES + b'"}',
        b'{"hello": {"program": "p", "format": 2}}',
        b'{"hello": {"program": "p", "format": 3, "instance": "i"}}',
        b'{"hello": {"program": "p", "format": true, "instance": "i"}}',
        b'{"hello": {"program": "p\\nq", "format": 2, "instance": "i"}}',
        b'{"hello": {"program": "p", "format": 2, "instance": ""}}',
        b'{"ended": {"session": 1, "reports": -1}}',
        *(
            json.dumps(reported).encode()
            for reported in (
                {**SESSION, "epoch": 1 << 32},
                {**SESSION, "epoch": None},
                {**SESSION, "queue_pairs": []},
                {**SESSION, "queue_pairs": [QUEUE_PAIR] * 17},
                {**SESSION, "queue_pairs": [QUEUE_PAIR, {**QUEUE_PAIR, "index": 1}]},
                with_members(number=0),
                with_members(number=1 << 24),
                with_members(key="99"),
                with_members(size=100),
                with_members(size=0),
                with_members(base=(1 << 64) - 384),
                with_members(index=1),
            )
        ),
    ],
    ids=itertools.count(),
)
def test_invalid_messages_are_rejected(line):
    with pytest.raises(InvalidMessage) as refused:
        decode(line)
    assert len(str(refused.value)) < 100
    assert "\n" not in str(refused.value)


def test_keys_are_not_in_messages():
    assert "99" not in repr(QueuePair(**QUEUE_PAIR)) + repr(Session(1, 192, 5, (QueuePair(**QUEUE_PAIR),)))
    assert SECRET.value not in repr(SECRET)


def test_written_session_retires_the_previous_one():
    sessions = sessions_of(rings := Rings())
    first = sessions.begin(HELLO)
    sessions.written(1)
    sessions.disconnected(1)
    assert (first.queue_pairs[0].size, rings.retired) == (384, [])
    sessions.begin(Hello("flowstats", 2, "a2"))
    assert rings.retired == []  # not before the registers are written
    sessions.written(2)
    assert rings.retired == [100]
    assert [row["retired"] for row in sessions.summary()] == [True, False]
    assert "key" not in json.dumps(sessions.summary())


def test_unwritten_queue_pairs_are_retired_with_the_connection():
    sessions = sessions_of(rings := Rings(), queue_pairs=2)
    sessions.begin(HELLO)
    sessions.disconnected(1)
    assert rings.retired == [100, 101]


def test_epochs_of_a_new_data_plane_follow_all_reported_ones():
    sessions = sessions_of(rings := Rings(), max_sessions=2)
    rings.epoch = 7
    assert sessions.begin(HELLO).epoch == 7
    assert sessions.begin(Hello("flowstats", 2, "b1")).epoch == 0, "epochs of simultaneous data planes begin at 0"
    sessions.disconnected(1)
    sessions.disconnected(2)
    rings.epoch = 9
    assert sessions.begin(Hello("flowstats", 2, "c1")).epoch == 9


def test_data_plane_beyond_the_maximum_is_rejected():
    sessions = sessions_of(Rings())
    sessions.begin(HELLO)
    with pytest.raises(InvalidMessage, match="busy: 1 other data plane connected"):
        sessions.begin(Hello("flowstats", 2, "b1"))
    assert sessions.begin(HELLO).number == 2  # it may reconnect before the end of its old connection is noticed


def test_ring_size_is_a_multiple_of_the_report_size():
    assert (ring_size(1000, 192), ring_size(1, 192), ring_size(128, 64)) == (960, 192, 128)


def test_register_commands_clear_numbers_first_and_set_them_last():
    pairs = tuple(QueuePair(i, 20 + i, 30 + i, 4096 * i, 384, 5) for i in range(2))
    lines = register_commands(Session(1, 192, 5, pairs))
    assert lines[:2] == ["register qp_number 0 0 16", "register qp_mask 0 1"]
    assert lines[-2:] == ["register qp_number 0 20", "register qp_number 1 21"]
    assert "register qp_end 1 4480" in lines
    assert "register qp_address 1 4096" in lines
    with pytest.raises(ValueError, match="must be a power of two"):
        register_commands(Session(1, 192, 5, (*pairs, QueuePair(2, 9, 9, 0, 192, 0))))


def test_hostile_lines_are_answered_and_do_not_stop_the_server(capsys):
    with listening(Rings()) as (server, port), Client(port) as bad, Client(port) as good:
        for line in (b"{}\n", b"x" * 50_000 + b"\n", b"[" * 9000 + b"\n", encode(channel.Alive(1))):
            bad.send(line)
            assert set(bad.receive()) == {"error"}
        good.send(encode(HELLO))
        assert good.receive()["session"] == 1
        for line in (encode(HELLO), encode(channel.Written(2)), encode(Session(1, 192, 5, (QueuePair(**QUEUE_PAIR),)))):
            good.send(line)
            assert set(good.receive()) == {"error"}
        for _ in range(MAX_REJECTED_LINES - 4):
            bad.send(b"{}\n")
        assert len(list(iter(bad.receive, {}))) == MAX_REJECTED_LINES - 4
        assert server.counts["refused_lines"] == MAX_REJECTED_LINES + 3
    assert "2147483648" not in capsys.readouterr().err  # the key


def test_other_addresses_than_loopback_require_listen_anywhere():
    with pytest.raises(UserError, match="sends keys unencrypted"):
        asyncio.run(ControlServer(sessions_of(Rings()), SECRET).start("0.0.0.0", 0))


@contextlib.contextmanager
def data_plane(port, logged, instance="a1", write=None):
    """Yield a control plane and the list of sessions that it writes. ``write``: called instead of appending to it."""
    written, hello = [], Hello("flowstats", 2, instance)
    with (
        collector_at(port) as collector,
        ControlPlane(collector, hello, write or written.append, log=logged.append, pace=PATIENT) as plane,
    ):
        yield plane, written


def test_restarted_collector_is_detected():
    logged = []
    with contextlib.ExitStack() as stack:
        with listening(Rings()) as (_, port):
            plane, written = stack.enter_context(data_plane(port, logged))
            assert plane.wait(TIMEOUT_S)
        again = Rings()
        again.allocate(50, 192, 2)
        server = ControlServer(Sessions(again, queue_pairs=2, ring_bytes=1000), SECRET, PATIENT)

        async def collect():
            await server.start("127.0.0.1", port)
            reached = await asyncio.to_thread(plane.wait, TIMEOUT_S, 2)
            await server.close()
            return reached

        assert asyncio.run(collect())
    first, second = ({pair.number for pair in session.queue_pairs} for session in written[:2])
    assert not first & second
    assert any("no session with the collector" in line for line in logged)


def test_restarted_data_plane_gets_new_queue_pairs():
    with listening(rings := Rings()) as (server, port):
        with data_plane(port, []) as (plane, _):
            assert plane.wait(TIMEOUT_S)
        with data_plane(port, [], "a2") as (plane, written):
            assert plane.wait(TIMEOUT_S)
            plane.ended(77)
        assert [pair.number for pair in written[0].queue_pairs] == [102, 103]
    rows = server.sessions.summary()
    assert rings.retired == [100, 101]
    assert [(row["ended"], row["reports_sent"]) for row in rows] == [(False, None), (True, 77)]
    assert [row["connected"] for row in rows] == [False, False]


def test_invalid_collector_message_closes_the_connection():
    logged = []
    with socket.create_server(("127.0.0.1", 0)) as impostor, contextlib.ExitStack() as stack:
        _, written = stack.enter_context(data_plane(impostor.getsockname()[1], logged))
        connection = stack.enter_context(impostor.accept()[0])
        connection.sendall(b'{"session": 1, "report_bytes": 192, "epoch": 0, "queue_pairs": [{}]}\n')
        assert connection.recv(4096) == b"", "nothing derived from the secret is sent before a challenge"
        stack.enter_context(impostor.accept()[0])
        assert written == []
    assert "a queue pair must have exactly" in logged[0]


def test_registers_that_cannot_be_written_end_the_control_plane():
    fail = Mock(side_effect=OSError("no data plane"))
    with listening(Rings()) as (server, port), data_plane(port, [], write=fail) as (plane, _):
        assert not plane.wait(TIMEOUT_S)
        assert str(plane.failure) == "no data plane"
    assert server.counts["sessions_written"] == 0


@pytest.mark.parametrize(
    "first",
    [
        encode(CHALLENGE_AND_PROOF[0]),
        encode(CHALLENGE_AND_PROOF[1]),
        proof_line(SECRET.value, "0" * 64),
        encode(HELLO),
        b"\n",
        b"{}\n",
        b"x" * 50_000 + b"\n",
        encode(channel.Alive(1)),
    ],
)
def test_connection_without_the_secret_gets_an_error_and_no_session(first):
    with listening(Rings()) as (server, port):
        with Client(port, secret=None) as stranger:
            stranger.send(first + encode(HELLO))
            assert set(stranger.receive()) == {"error"}
            assert stranger.receive() == {}
        assert server.counts["without_secret"] == 1
        assert server.sessions.summary() == []
        with Client(port) as owner:
            owner.send(encode(HELLO))
            assert owner.receive()["session"] == 1


def test_secret_is_not_sent_and_proofs_cannot_be_replayed():
    """Records both directions between control plane and collector."""
    sent = {}
    with contextlib.ExitStack() as stack:
        _, port = stack.enter_context(listening(Rings()))
        between = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        forwarding = stack.enter_context(contextlib.ExitStack())  # until the control plane closes its connection
        plane, _ = stack.enter_context(data_plane(between.getsockname()[1], []))
        near = forwarding.enter_context(between.accept()[0])
        far = forwarding.enter_context(socket.create_connection(("127.0.0.1", port)))

        def forward(name, source, target):
            sent[name] = b""
            while received := source.recv(4096):
                sent[name] += received
                target.sendall(received)
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)

        ways = (functools.partial(forward, *words) for words in (("challenge", far, near), ("proof", near, far)))
        forwarding.enter_context(in_background(*ways))
        assert plane.wait(TIMEOUT_S)
        lines = {name: json.loads(text.split(b"\n")[0])[name] for name, text in sent.items()}
        assert sent["proof"].split(b"\n")[0] + b"\n" == encode(channel.Proof(lines["proof"]))
        assert json.loads(proof_line(SECRET.value, lines["challenge"])) == {"proof": lines["proof"]}
        with Client(port, secret=None) as again:
            assert again.challenge != lines["challenge"]
            again.send(encode(channel.Proof(lines["proof"])))
            assert set(again.receive()) == {"error"}
    assert SECRET.value.encode() not in sent["challenge"] + sent["proof"]


def test_other_users_can_neither_read_the_secret_nor_open_a_session():
    with tempfile.TemporaryDirectory() as directory, listening(Rings()) as (server, port):
        Path(directory).chmod(0o755)  # only the mode of the file protects the secret
        path = Path(directory) / "collector.secret"
        server.secret = control_lines.make_secret(path)
        number, answer = other_user.try_access(path, port, encode(HELLO).decode())
        assert server.sessions.summary() == []
    assert number == str(errno.EACCES)
    assert [set(json.loads(line)) for line in answer.split("\n") if line] == [{"challenge"}, {"error"}]


def test_silent_connections_do_not_block_a_data_plane():
    """More silent connections than the collector accepts are open before the data plane connects."""
    with listening(Rings()) as (server, port), contextlib.ExitStack() as stack:
        connections = (socket.create_connection(("127.0.0.1", port)) for _ in range(MAX_UNAUTHENTICATED + 20))
        silent = [stack.enter_context(connection) for connection in connections]
        plane, written = stack.enter_context(data_plane(port, []))
        assert plane.wait(5)
        assert len(written) == 1
        with contextlib.suppress(ConnectionResetError):  # the oldest one was closed after its challenge
            while silent[0].recv(4096):
                pass
        assert server.counts["evicted"] >= 20


@pytest.mark.parametrize(
    ("dead_s", "secret_s", "secret", "line"),
    [(0.5, TIMEOUT_S, SECRET, b""), (TIMEOUT_S, 0.2, None, b'{"proof": ')],
    ids=["silent", "incomplete proof of the secret"],
)
def test_connection_has_a_timeout(dead_s, secret_s, secret, line):
    with listening(Rings(), channel.Pace(alive_s=0.02, dead_s=dead_s, secret_s=secret_s)) as (server, port):
        with Client(port, secret) as slow:
            slow.send(line)
            assert slow.receive() == {}
        assert server.counts["silent"] == 1


def test_secret_readable_by_others_is_rejected(tmp_path):
    path = tmp_path / "collector.secret"
    secret = control_lines.make_secret(path)
    assert (control_lines.secret_of(path), path.stat().st_mode & 0o777) == (secret, 0o600)
    assert control_lines.make_secret(path) != secret, "each run has its own secret"
    path.chmod(0o640)
    with pytest.raises(InvalidMessage, match=r"other users can access .*; chmod 600"):
        control_lines.secret_of(path)
    path.chmod(0o600)
    path.write_text("none")
    with pytest.raises(InvalidMessage, match="does not contain a secret of 64 hexadecimal digits"):
        control_lines.secret_of(path)


@pytest.mark.parametrize("text", ["", "1", ":1", "h:", "h:x", "h:70000", "h:-1"])
def test_address_has_a_host_and_a_port(text):
    assert control_lines.address("[::1]:47") == ("::1", 47)
    with pytest.raises(UserError, match="is not HOST:PORT"):
        control_lines.address(text)
