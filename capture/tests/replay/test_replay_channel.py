"""The lines of the control channel of replayers: keys, HMACs, sequence numbers, and hostile bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.replay import channel, messages
from acapella_core.control_lines import Challenge, InvalidMessage, Secret

SECRET, OTHER = Secret("ab" * 32), Secret("ac" * 32)
AGENT, CONTROLLER = Challenge("01" * 32), Challenge("02" * 32)
KEYS = channel.Keys.derive(SECRET, AGENT, CONTROLLER)


def reader_of() -> channel.Reader:
    """Return the reader of a controller's lines."""
    return channel.Reader(KEYS.from_controller, channel.MAX_REQUEST_BYTES)


def line_of(key: bytes = KEYS.from_controller, **message: object) -> bytes:
    """Return the first line of a connection with this key, by default that of the controller."""
    return channel.Writer(key).line(**message)[:-1]


def refused(line: bytes | None) -> channel.InvalidLine:
    """Return why the reader rejects a line."""
    with pytest.raises(channel.InvalidLine) as raised:
        reader_of().message(line)
    return raised.value


def test_both_sides_derive_the_same_keys_from_secret_and_challenges():
    assert channel.Keys.derive(SECRET, AGENT, CONTROLLER) == KEYS
    others = [(OTHER, AGENT, CONTROLLER), (SECRET, CONTROLLER, AGENT), (SECRET, AGENT, AGENT)]
    derived = [KEYS, *(channel.Keys.derive(*other) for other in others)]
    assert len({value for keys in derived for value in (keys.proof, keys.from_agent, keys.from_controller)}) == 3 * 4
    assert KEYS.proof not in repr(KEYS)
    assert SECRET.value not in repr(SECRET)


def test_challenge_and_proof_round_trip():
    assert channel.decode_challenge(channel.encode_challenge(AGENT)[:-1]) == AGENT
    assert channel.decode_proof(channel.encode_proof(AGENT, KEYS.proof)[:-1]) == (AGENT, KEYS.proof)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"challenge": "' + b"0" * 64 + b'", "version": 2}', "a different version"),
        (b'{"challenge": "' + b"0" * 64 + b'"}', "must have exactly"),
        (b'{"challenge": "' + b"G" * 64 + b'", "version": 1}', "not 64 hexadecimal digits"),
        (b'{"challenge": 1, "version": 1}', "not 64 hexadecimal digits"),
        (b'{"error": "a\\u001b[31m"}', r"a\?\[31m"),
        (b'{"error": 1}', "not text"),
        (b"\xff", "not a JSON object"),
    ],
)
def test_invalid_challenges_are_rejected(line, why):
    with pytest.raises(InvalidMessage, match=why):
        channel.decode_challenge(line)


@given(
    st.builds(messages.Record, st.integers(0, 2**61), st.one_of(st.just(0), st.integers(2**61 + 1, 2**62 - 1)))
    | st.builds(messages.Rolling, st.integers(1, messages.MAX_ROLLING_S))
    | st.builds(messages.Run, *(st.integers(1, n) for n in (2**62 - 1, messages.MAX_LOOPS, messages.MAX_SPEED_PPM)))
    | st.builds(messages.Fetch, st.integers(0, 2**62 - 1))
    | st.sampled_from(
        [messages.Stop(), messages.Save(), messages.Clear(), messages.Status(), messages.Clock(), messages.Disconnect()]
    )
)
def test_requests_round_trip(request):
    sequence, message = reader_of().message(line_of(**messages.encode(request)))
    assert (sequence, messages.decode(message)) == (1, request)


@given(st.binary(max_size=300))
def test_any_other_bytes_are_rejected_as_forged(line):
    assert refused(line).count == "forged"


@given(st.binary(max_size=300))
def test_authentic_lines_without_a_message_are_rejected_as_invalid(text):
    why = refused(channel.mac_of(KEYS.from_controller, text) + b" " + text)
    assert why.count == "invalid"
    assert len(str(why)) < 100


@given(st.data())
def test_modified_line_is_rejected_and_the_original_still_accepted(data):
    reader, line = reader_of(), line_of(run={"at_ns": 5, "loops": 1, "speed_ppm": 10**6})
    at = data.draw(st.integers(0, len(line) - 1))
    flipped = bytes([line[at] ^ data.draw(st.integers(1, 255))])
    rest = data.draw(st.sampled_from([flipped + line[at + 1 :], b"", b"0" + line[at:]]))  # flipped, cut, inserted
    with pytest.raises(channel.InvalidLine) as why:
        reader.message(line[:at] + rest)
    assert why.value.count == "forged"
    assert reader.message(line)[0] == 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30))
def test_lines_are_accepted_once_and_in_order_whatever_order_they_arrive_in(order):
    writer, reader = channel.Writer(KEYS.from_controller), reader_of()
    lines = {number: writer.line(status={})[:-1] for number in range(1, 7)}
    expected, accepted = 1, []
    for number in order:
        try:
            accepted.append(reader.message(lines[number])[0])
        except channel.InvalidLine as why:
            assert why.count == ("replayed" if number < expected else "reordered")
        else:
            expected += 1
    assert accepted == list(range(1, expected))


@pytest.mark.parametrize(
    "key",
    [
        channel.Keys.derive(OTHER, AGENT, CONTROLLER).from_controller,
        channel.Keys.derive(SECRET, AGENT, AGENT).from_controller,
        KEYS.from_agent,
    ],
    ids=["secret", "connection", "direction"],
)
def test_lines_of_a_different_secret_connection_or_direction_are_forged(key):
    why = refused(line_of(key, status={}))
    assert why.count == "forged"
    assert "HMAC" in str(why)


@pytest.mark.parametrize("line", [None, b"0" * (channel.MAX_REQUEST_BYTES + 1)])
def test_oversized_lines_are_rejected(line):
    assert refused(line).count == "oversized"


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"run": {}},
        {"run": {"at_ns": 0, "loops": 1, "speed_ppm": 1}},
        {"run": {"at_ns": 1, "loops": 0, "speed_ppm": 1}},
        {"run": {"at_ns": 1, "loops": True, "speed_ppm": 1}},
        {"run": {"at_ns": 1, "loops": 1.0, "speed_ppm": 1}},
        {"run": {"at_ns": 2**62, "loops": 1, "speed_ppm": 1}},
        {"run": {"at_ns": 1, "loops": 1, "speed_ppm": 1, "more": 1}},
        {"record": {"from_ns": 9, "until_ns": 9}},
        {"record": {"from_ns": -1, "until_ns": 0}},
        {"rolling": {"seconds": 0}},
        {"rolling": {"seconds": messages.MAX_ROLLING_S + 1}},
        {"status": {"more": 1}},
        {"status": []},
        {"status": {}, "quit": {}},
        {"shell": {}},
        {"Status": {}},
        {"fetch": {"offset": -1}},
    ],
    ids=json.dumps,
)
def test_invalid_requests_are_rejected(message):
    with pytest.raises(InvalidMessage) as refused:
        messages.decode(message)
    assert len(str(refused.value)) < 120


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*messages.REQUESTS, "other"]), JSON, max_size=2))
def test_any_object_is_a_valid_request_or_rejected(message):
    try:
        request = messages.decode(message)
    except InvalidMessage:
        return
    assert messages.encode(request) == message


@given(st.dictionaries(st.sampled_from(["to", "done", "error", "other"]), JSON, max_size=4))
def test_any_response_is_a_result_or_rejected(message):
    try:
        assert isinstance(messages.done_of(message, 3), dict) and message["to"] == 3
    except InvalidMessage as why:
        assert str(why).isprintable() and len(str(why)) <= messages.MAX_TEXT
