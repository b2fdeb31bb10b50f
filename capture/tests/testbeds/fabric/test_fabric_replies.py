"""Malformed replies of nodes are errors in one line, whatever a node sends."""

import base64
import json
from types import SimpleNamespace

import pytest

pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")

from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.control.watchdog import clock_error_ns, parse_clock
from acapella_capture.scan import Facts, facts_of
from acapella_capture.testbeds import nic_settings
from acapella_capture.testbeds.base import CompletedProgram
from acapella_capture.testbeds.fabric.nodes import dpdk_devices
from acapella_capture.testbeds.fabric.remote import Remote
from acapella_capture.testbeds.fabric.replies import REQUIRED
from acapella_core.errors import UserError

NODE = "UTAH-listener1"
VALID = {
    "run": {"status": 0, "out": "x", "log": ""},
    "state": {"status": None, "out": "", "log": "y"},
    "checksums": {"size": 3, "sha256": "ab", "checksums": ["ab"]},
    "extract_part": {"path": "a/b"},
    "is_used": {"used": True},
    "interfaces": {"interfaces": {"02:00:00:00:00:01": "enp3s0"}},
}
METADATA = {
    "frames": 1, "clock_resolution_ns": 1, "snaplen": None, "file_issue": "cut_record", "file_issue_offset": 24,
    "file_issue_detail": "", "file_unread_bytes": 0, "longest_frame_bytes": 60,
}  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
LONG = "9" * 5000  # longer than int() accepts


def remote(output: str) -> Remote:
    """Return the access to a node that replies to each command with this output."""
    node = SimpleNamespace(
        get_management_ip=lambda: "192.0.2.9", get_reservation_state=lambda: "Active",
        execute=lambda *_, **__: (output, ""),
    )  # fmt: skip
    settings = SimpleNamespace(ssh_tries=1, ssh_retry_s=0)
    return Remote(lambda _: node, "acapella-c", settings, lambda: None)


def printed(content: bytes) -> str:
    return f"acapella-reply:{base64.b64encode(content).decode()};"


@pytest.mark.parametrize("command", VALID)
def test_valid_reply_is_returned(command):
    assert remote(printed(json.dumps(VALID[command]).encode())).call(NODE, command) == VALID[command]
    assert VALID.keys() == REQUIRED.keys()


@pytest.mark.parametrize(
    "output",
    [
        "acapella-reply:A;",
        "acapella-reply:=====;",
        printed(b"\xff"),
        printed(b"{"),
        printed(b"[" * 100_000),
        printed(b"3"),
        printed(b"{}"),
        printed(b'{"error": 3}'),
        printed(f'{{"status": {LONG}, "out": "", "log": ""}}'.encode()),
        printed(b'{"status": "0", "out": "", "log": ""}'),
        printed(b'{"status": true, "out": "", "log": ""}'),
        printed(b'{"status": 0, "out": null, "log": ""}'),
        printed(rb'{"status": 0, "out": "\ud800", "log": ""}'),
    ],
)
def test_malformed_reply_is_an_error(output):
    with pytest.raises(UserError, match=f"node {NODE}: malformed reply to run: ") as raised:
        remote(output).run(NODE, ["true"], timeout_s=1, stdin="")
    assert "\n" not in str(raised.value)


@given(command=st.sampled_from(sorted(VALID)), key=st.text(max_size=3) | st.none(), value=VALUES, data=st.data())
def test_any_reply_has_the_types_of_its_command_or_is_an_error(command, key, value, data):
    reply = VALID[command] | {key or data.draw(st.sampled_from(sorted(VALID[command]))): value}
    try:
        found = remote(printed(json.dumps(reply).encode())).call(NODE, command)
    except UserError:
        return
    for name, check in REQUIRED[command].items():
        assert check(found[name])
    json.dumps(found.get("out", ""), ensure_ascii=False).encode()


@given(key=st.sampled_from(sorted(METADATA)), value=VALUES)
def test_facts_of_a_node_have_the_types_of_facts(key, value):
    try:
        facts = facts_of(METADATA | {key: value})
    except (KeyError, TypeError, ValueError):
        return
    assert type(facts.frames) is int and facts.frames >= 0 and isinstance(facts, Facts)
    for number in (facts.clock_resolution_ns, facts.snaplen, facts.whole_bytes, facts.longest_frame_bytes):
        assert number is None or (type(number) is int and number >= 0)
    assert facts.fault is None or facts.fault.encode()


def nodes_that_print(text: str) -> SimpleNamespace:
    return SimpleNamespace(run=lambda *_, **__: CompletedProgram(0, text, ""))


@pytest.mark.parametrize("text", ["\n", "enp8s0\n", "enp8s0 - -\n", "enp8s0 - - no more\n", "enp8s0 - - no\n\n", ""])
def test_malformed_drivers_are_an_error(text):
    with pytest.raises(UserError, match="cannot read the drivers of enp8s0"):
        dpdk_devices.read_nics(nodes_that_print(text), NODE, ["enp8s0"])


@pytest.mark.parametrize("text", ["", "3\n", "3 x\n", "1 2 3\n", f"{LONG} 1\n"])
def test_malformed_huge_pages_are_an_error(text):
    with pytest.raises(UserError, match="cannot read the huge pages"):
        dpdk_devices.reserve(nodes_that_print(text), NODE, 1)


def test_settings_that_are_no_numbers_are_unknown():
    text = f"interface enp8s0\n7: enp8s0: mtu {LONG} qdisc\nRX: 1\nRX: {LONG}\n"
    settings = nic_settings.parse(text)["enp8s0"]
    assert settings.mtu is None and settings.rx_ring is None


def test_clock_that_is_not_finite_is_unknown():
    fields = ",".join(["A", "B", "1", "2", "1e999", *["0"] * 5, "1e999", "1e999", "0", "Normal"])
    assert parse_clock(f"chrony {fields}")["offset_ns"] is None
    assert clock_error_ns(f"chrony {fields}") is None
