"""Malformed replies of nodes are one-line errors, whatever a node sends."""

import base64
import contextlib
import json
from types import SimpleNamespace

import acapella_testing.fabric  # noqa: F401 (skips this module if FABRIC's client is not installed)
import pytest
from acapella_testing.new_files import write_file
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.control.watchdog import clock_error_ns, parse_clock, parse_status
from acapella_capture.programs import dpdk
from acapella_capture.programs.tcpdump import last_counts
from acapella_capture.replay import departures
from acapella_capture.scan import Facts, facts_of
from acapella_capture.testbeds import nic_settings
from acapella_capture.testbeds.base import CompletedProgram, ResourceRequest
from acapella_capture.testbeds.fabric import remote as remote_programs
from acapella_capture.testbeds.fabric.nodes import dpdk_devices
from acapella_capture.testbeds.fabric.remote import Remote
from acapella_capture.testbeds.fabric.replay_sender import NodeSender, checked_report
from acapella_capture.testbeds.fabric.replies import REQUIRED
from acapella_capture.testbeds.sent_trials import delays, unsent
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


@pytest.fixture(autouse=True, scope="module")
def _outputs():
    """Have nodes without an SSH connection reply to each command with their attribute ``output``."""
    with pytest.MonkeyPatch.context() as patch:
        execute = remote_programs.execute
        patch.setattr(remote_programs, "execute", lambda node, line: (
            (node.output, "") if hasattr(node, "output") else execute(node, line)
        ))  # fmt: skip
        yield


def remote(output: str) -> Remote:
    """Return the access to a node that replies to each command with this output."""
    node = SimpleNamespace(
        get_management_ip=lambda: "192.0.2.9", get_reservation_state=lambda: "Active", output=output
    )  # fmt: skip
    return Remote(lambda _: node, "acapella-c", SimpleNamespace(ssh_tries=1, ssh_retry_s=0), lambda: None)


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
    with contextlib.suppress(UserError):
        found = remote(printed(json.dumps(reply).encode())).call(NODE, command)
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


def test_settings_that_are_not_numbers_are_unknown():
    settings = nic_settings.parse(f"interface enp8s0\n7: enp8s0: mtu {LONG} qdisc\nRX: 1\nRX: {LONG}\n")["enp8s0"]
    assert settings.mtu is None and settings.rx_ring is None


@pytest.mark.parametrize(("offset", "error"), [("1e999", "1e999"), ("1e200", "0")])
def test_clock_that_is_not_finite_or_out_of_range_is_unknown(offset, error):
    fields = ",".join(["A", "B", "1", "2", offset, *["0"] * 5, offset, error, "0", "Normal"])
    assert parse_clock(f"chrony {fields}")["offset_ns"] is None
    assert clock_error_ns(f"chrony {fields}") is None
    assert parse_clock(f"ptp {10**30} true")["offset_ns"] is None
    assert parse_clock("ptp -5 true")["offset_ns"] == -5


@pytest.mark.parametrize("field", [LONG, "1" * 16, "\u0663", "1.5", "x"])
def test_impossible_node_status_is_an_error(field):
    with pytest.raises(ValueError, match=field[:16]):
        parse_status(f"1 - {field} 3")
    assert parse_status("1 - -5 3").heartbeat_s == -5


def test_impossible_counts_are_ignored():
    line = "{} packets captured\n4 packets received by filter\n0 packets dropped by kernel\n"
    assert last_counts(line.format(LONG)) is None and last_counts(line.format("\u0663")) is None
    assert last_counts(line.format(3)).captured == 3


ACCOUNTS = {
    "device": {"name": "0000:08:00.0", "driver": "mlx5_pci", "huge_pages": True}, "p4": None,
    "nic": {"imissed": 1, "rx_nombuf": 0, "ierrors": 2},
    "frames": {"written": 5, "sampled_out": 0, "dropped": {"full": 1}},
}  # fmt: skip


@given(path=st.sampled_from([(a, b) for a in ("device", "nic", "frames") for b in ACCOUNTS[a]]), value=VALUES)
def test_accounts_of_the_capture_program_have_possible_values_or_are_an_error(path, value):
    accounts = json.loads(json.dumps(ACCOUNTS))
    accounts[path[0]][path[1]] = value
    try:
        counts, facts = dpdk.counts_of(accounts), dpdk.facts_of(accounts, None)
    except (ValueError, LookupError, TypeError, AttributeError):
        return
    numbers = [counts.captured, counts.received, counts.dropped_kernel, counts.dropped_interface, counts.sampled_out]
    assert all(type(number) is int and 0 <= number < 1 << 63 for number in (*numbers, *facts["dropped"].values()))
    assert isinstance(facts["device"], str) and isinstance(facts["huge_pages"], bool)


REPORT = {
    "event": "done", "sent": 3, "sent_late": 0, "late_ns": 5, "priority": 0, "dropped": {"late": 0},
    "polling": {"preemptions": 1, "largest_gap_ns": 9}, "ports": [],
}  # fmt: skip


@given(key=st.sampled_from(sorted(REPORT)), value=VALUES)
def test_report_of_a_run_has_possible_values_or_is_an_error(key, value):
    with contextlib.suppress(UserError):
        report = checked_report(REPORT | {key: value}, NODE)
        assert unsent(report) is None or isinstance(unsent(report), str)
        assert all(each is None or type(each) is int for each in delays([report]).values())


@pytest.mark.parametrize("key", ["sent", "dropped", "polling", "priority", "late_ns"])
def test_malformed_report_of_a_run_is_an_error(key):
    assert checked_report(REPORT, NODE) == REPORT
    with pytest.raises(UserError, match=f"^{NODE}: the report of a run is malformed"):
        checked_report(REPORT | {key: "1"}, NODE)


@pytest.mark.parametrize("line", ["[" * 100_000, "{", rb'{"event": "error", "message": "\ud800"}'.decode()])
def test_malformed_event_of_the_program_is_an_error(line):
    sender = NodeSender(nodes_that_print(f"{line}\n"), NODE, "enp8s0", 1)
    sender._testbed.path_on_node = lambda _, file: file
    with pytest.raises(UserError, match="an event of the program is malformed"):
        sender._events()


@pytest.mark.parametrize("period_ns", [None, "1", -1, 1 << 70])
def test_impossible_period_is_an_error(period_ns, monkeypatch):
    sender = NodeSender(nodes_that_print(""), NODE, "enp8s0", 1)
    monkeypatch.setattr(sender, "_events", list)
    monkeypatch.setattr(sender, "_command", lambda *_: {"event": "scheduled", "period_ns": period_ns})
    with pytest.raises(UserError, match="no valid period"):
        sender.schedule(0, 1_000_000)


def test_departures_of_more_packets_than_were_sent_are_an_error(tmp_path):
    file = write_file(tmp_path / "departures", departures.MAGIC + bytes(3 * departures.RECORD.itemsize))
    departures.check_size(file, 3)
    with pytest.raises(UserError, match="does not contain the departures of 2 packets"):
        departures.check_size(file, 2)


def test_node_that_prints_without_end_is_not_read_to_the_end(fabric, testbed, monkeypatch):
    """The connection is closed beyond the limit, so that the node cannot fill the memory."""
    (instance,) = testbed.allocate("UTAH", ResourceRequest(1))
    monkeypatch.setattr(remote_programs, "SHELL", "cat /dev/zero | head -c 30000000")
    monkeypatch.setattr(remote_programs, "MAX_OUTPUT_BYTES", 1_000_000)
    commands = len(fabric.nodes.commands)
    with pytest.raises(UserError, match=f"^node {instance.name}: printed more than 1 MB$"):
        testbed.run(instance.name, ["true"])
    assert len(fabric.nodes.commands) == commands + 1, "a retry would be the same"
