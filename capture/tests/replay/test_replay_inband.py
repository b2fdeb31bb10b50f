"""In-band control with a stand-in for the program: the same requests as over TCP, on a link that loses frames."""

import queue
import time

import pytest
from acapella_testing.capture.replay_agents import (
    OTHER_SECRET,
    SECRET,
    TIMEOUT_S,
    Peer,
    RunningAgent,
    listening,
    stand_in_argv,
)
from acapella_testing.waiting import wait_until

from acapella_capture.replay import channel, controller, frame_socket, frames, inband, messages
from acapella_capture.replay.controller import Remote
from acapella_core.control_lines import Challenge, Secret
from acapella_core.errors import UserError

REPLAYER, CONTROLLER = b"\2\0\0\0\0\7", b"\2\0\0\0\0\1"
NAME = f"eth1/{frames.mac_text(REPLAYER)}"


class Link:
    """Passes frames between the program of an agent and controllers; ``lost`` selects frames that do not arrive."""

    def __init__(self, running: RunningAgent, monkeypatch):
        self.running = running
        self.lost = lambda data: False
        self.sent: list[bytes] = []  # by the replayer
        self._arrived: dict[int, queue.Queue] = {}
        self.program = running.agent.replayer.program
        command = self.program.command

        def answer_or_command(name: str, *arguments):
            if name != "answer":
                return command(name, *arguments)
            port, text = arguments
            assert port == 1
            self.to_controller(bytes.fromhex(text))
            return {"event": "answered"}

        monkeypatch.setattr(self.program, "command", answer_or_command)

    def to_controller(self, data: bytes) -> None:
        frame = frames.decode(data)
        assert (frame.target, frame.source, frame.kind) == (CONTROLLER, REPLAYER, frames.RESPONSE)
        self.sent.append(data)
        if not self.lost(data):
            self.arrived(frame.session).put(data)

    def to_replayer(self, data: bytes) -> None:
        if not self.lost(data):
            self.program.on_control({"event": "control", "port": 1, "frame": data.hex()})

    def arrived(self, session: int) -> queue.Queue:
        return self._arrived.setdefault(session, queue.Queue())


class LinkSocket(frame_socket.FrameSocket):
    """A controller's socket at the other end of a link."""

    link: Link

    def __init__(self, name: str, timeout_s: float):
        self._timeout_s = self._wait_s = timeout_s
        self._closed, self._line, self._parts, self._socket = False, b"", frames.Assembly(), self
        self._head = frames.Frame(REPLAYER, CONTROLLER, time.monotonic_ns(), frames.REQUEST)
        self._send()

    def settimeout(self, timeout_s: float) -> None:
        self._timeout_s = self._wait_s = timeout_s

    def send(self, data: bytes) -> None:
        self.link.to_replayer(data)

    def recvfrom(self, size: int):
        try:
            return self.link.arrived(self._head.session).get(timeout=frame_socket.REPEAT_S), ("", 0, 0, 0, b"")
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        self._closed = True


@pytest.fixture
def link(monkeypatch):
    """Provide the link of an agent with a stand-in."""
    with listening(stand_in_argv()) as running:
        link = Link(running, monkeypatch)
        monkeypatch.setattr(LinkSocket, "link", link, raising=False)
        monkeypatch.setattr(controller, "FrameSocket", LinkSocket)
        yield link


def frame(text: bytes, session: int = 1, **changes) -> bytes:
    return frames.encode(frames.Frame(REPLAYER, CONTROLLER, session, frames.REQUEST, text, **changes))


def line_of(link: Link, session: int = 1) -> bytes:
    """Return the next line that the replayer has sent."""
    return frames.decode(link.arrived(session).get(timeout=TIMEOUT_S)).text


def answer(link: Link, number: int, line: bytes) -> bytes:
    """Send a line in a frame with a number to the replayer, and return its answer without spaces."""
    link.to_replayer(frame(line.removesuffix(b"\n"), number=number))
    return line_of(link).replace(b" ", b"")


def test_requests_equal_those_over_tcp(link, tmp_path):
    with Remote(NAME, SECRET) as remote:
        assert remote.welcome["ports"] == "eth1"
        remote.request(messages.Record())
        assert remote.request(messages.Stop())["packets"] == 2
        remote.request(messages.Run(time.time_ns() + 10**8))
        wait_until(lambda: isinstance(remote.request(messages.Status()).get("run"), dict), "the run ends")
        remote.fetch_departures(tmp_path / "departures")
        assert abs(remote.clock().offset_ns) <= remote.clock().error_ns
    assert (tmp_path / "departures").stat().st_size > 0
    link.running.logged("replay: controller in-band 02:00:00:00:00:01 disconnected")
    assert link.running.agent.counts["in_band_sessions"] == link.running.agent.counts["sessions"] == 1


@pytest.mark.parametrize("parity", [0, 1])
def test_lost_frames_are_retransmitted_and_no_request_is_executed_twice(link, parity):
    """Of the requests (or responses) with the same bytes, the first one is lost."""
    seen: set[bytes] = set()

    def lost(data: bytes) -> bool:
        if (frames.decode(data).kind == frames.REQUEST) != (parity == 0) or data in seen:
            return False
        seen.add(data)
        return True

    link.lost = lost
    with Remote(NAME, SECRET) as remote:
        for request in 2 * (messages.Record(), messages.Stop(), messages.Clear()):
            done = remote.request(request)
            assert request != messages.Stop() or done["packets"] == 2
    assert seen and link.running.agent.counts["requests"] == 7, "six requests and bye"


def test_late_duplicates_in_both_directions_do_not_disturb_a_session(link):
    """All earlier frames arrive again before each new one."""

    def repeating(deliver):
        arrived: list[bytes] = []

        def deliver_all(data: bytes) -> None:
            arrived.append(data)
            for each in [*arrived]:
                deliver(each)

        return deliver_all

    link.to_replayer, link.to_controller = repeating(link.to_replayer), repeating(link.to_controller)
    with Remote(NAME, SECRET) as remote:
        remote.request(messages.Record())
        assert remote.request(messages.Stop())["packets"] == 2
        assert remote.request(messages.Status())["state"] == "idle"
    counts = link.running.agent.counts
    assert counts["in_band_unexpected"] > 0 and counts["requests"] == 4, "three requests and bye"
    assert counts["replayed"] == counts["forged"] == counts["sessions"] - 1 == 0


def test_wrong_secret_is_rejected(link):
    with pytest.raises(UserError, match="the proof of the secret is wrong"), Remote(NAME, OTHER_SECRET):
        pass
    link.running.counted("without_secret")


def test_tcp_and_in_band_controllers_exclude_each_other(link):
    with Peer(link.running.port):
        wait_until(lambda: link.running.agent.counts["sessions"] == 1, "the first controller")
        with pytest.raises(UserError, match="busy: another controller is connected"), Remote(NAME, SECRET):
            pass


def opened(link: Link, secret: Secret = SECRET, session: int = 1) -> tuple[channel.Writer, bytes]:
    """Open a session and prove the secret; return the writer, and the frame of the proof."""
    link.to_replayer(frame(b"", session))
    theirs, ours = channel.decode_challenge(line_of(link, session)), Challenge.new()
    keys = channel.Keys.derive(secret, theirs, ours)
    proof = frame(channel.encode_proof(ours, keys.proof).removesuffix(b"\n"), session, number=1)
    link.to_replayer(proof)
    assert b'"welcome"' in line_of(link, session)
    return channel.Writer(keys.from_controller), proof


def test_forged_and_replayed_lines_are_counted_and_not_executed(link):
    writer, _ = opened(link)
    status, clear = writer.line(status={}), writer.line(clear={})
    assert b'"state"' in answer(link, 2, status)
    assert b"HMAC" in answer(link, 3, clear[:-3] + b"x}")
    link.running.counted("forged")
    assert b"expected2" in answer(link, 4, status)
    link.running.counted("replayed")
    assert b'"to":2,"done"' in answer(link, 5, clear)
    assert link.running.agent.counts["requests"] == 2


def test_line_from_a_different_session_is_forged(link):
    writer, proof = opened(link)
    link.to_replayer(frame(b"", 2))
    line_of(link, 2)
    link.to_replayer(proof.replace((1).to_bytes(8, "big"), (2).to_bytes(8, "big"), 1))
    assert b"the proof of the secret is wrong" in line_of(link, 2)
    assert writer.sequence == 0


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", "in_band_malformed"),
        (frame(b"")[:30], "in_band_malformed"),
        (frame(b"x", part=0, parts=2), "in_band_malformed"),
        (frames.encode(frames.Frame(REPLAYER, CONTROLLER, 1, frames.RESPONSE)), "in_band_malformed"),
        (frame(b"no session"), "in_band_unknown"),
        (frame(b"", number=1), "in_band_unknown"),
    ],
)
def test_invalid_frames_are_counted_and_not_answered(link, data, count):
    link.to_replayer(data) if data else link.program.on_control({"event": "control", "port": 1, "frame": "no hex"})
    link.running.counted(count)
    assert not link.sent


def test_quit_is_acknowledged_before_the_replayer_ends(link):
    """The response waits behind that of a slow request, during which the agent begins to exit."""
    writer, _ = opened(link)
    command = link.program.command
    link.program.command = lambda *words: time.sleep(0.3) or command(*words)
    for number, request in ((2, {"stop": {}}), (3, {"quit": {}})):
        link.to_replayer(frame(writer.line(**request).removesuffix(b"\n"), number=number))
    assert [line_of(link).replace(b" ", b"").partition(b'"to":')[2][:1] for _ in range(2)] == [b"1", b"2"]


def test_new_sessions_do_not_end_an_active_one(link, monkeypatch):
    monkeypatch.setattr(inband, "MAX_SESSIONS", 2)
    writer, _ = opened(link)
    for session in (2, 3, 4):
        link.to_replayer(frame(b"", session))
    link.running.counted("in_band_limited", 2)
    assert b'"to"' in answer(link, 2, writer.line(bye={}))
    wait_until(lambda: link.running.agent._connected is None, "the end of the session")
    wait_until(lambda: link.to_replayer(frame(b"", 5)) or not link.arrived(5).empty(), "a session instead of the first")


def test_flood_of_new_sessions_is_limited(link):
    begin = time.monotonic()
    for session in range(2_000):
        link.to_replayer(frame(b"", session))
    link.running.counted("in_band_limited")
    counts = link.running.agent.counts
    wait_until(lambda: counts["in_band_sessions"] + counts["in_band_limited"] == 2_000)
    assert counts["in_band_sessions"] <= 10 * (time.monotonic() - begin + 1)
    time.sleep(1)
    with Remote(NAME, SECRET) as remote:
        assert remote.request(messages.Status())["state"] == "idle"


@pytest.mark.parametrize("wrong", ["eth1/", "/02:00:00:00:00:07", "eth1/02:00:00:00:00:0G", "eth1/2:0:0:0:0:7"])
def test_address_of_a_replayer_on_the_data_path_is_checked(wrong):
    assert frame_socket.parse("eth1/02:00:00:00:00:07") == ("eth1", REPLAYER)
    with pytest.raises(UserError, match="is not INTERFACE/MAC"):
        frame_socket.parse(wrong)
