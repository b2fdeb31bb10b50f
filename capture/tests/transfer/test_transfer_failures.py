"""Failed probes, transfers and digests: each fails its own run, and the grid continues."""

import contextlib
import itertools
import json
import socket
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from acapella_testing.generated.transfer_cells import validate_written

from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.transfer import capture, measurement, probe, runner, transfer
from acapella_capture.transfer.delay import Counts
from acapella_capture.transfer.emulation import Emulation
from acapella_capture.transfer.grid import plan
from acapella_capture.transfer.hosts import Hosts
from acapella_capture.transfer.measurement import Measurements
from acapella_capture.transfer.results import MAX_ATTEMPTS, Results
from acapella_capture.transfer.runner import MAX_CONSECUTIVE_FAILURES, Runner, check_failed, run_grid
from acapella_capture.transfer.settings import parse_transfer_settings
from acapella_capture.transfer.transfer import Flow, Outcome
from acapella_core.errors import UserError
from acapella_core.validation import load_jsonschema

GRID = {"algorithm": ["reno"], "delay_ms": [0, 20], "buffer_bytes": [50_000, 100_000]}
SETTINGS = parse_transfer_settings({"transfer": {"grid": GRID, "keep_captures": True}})
CAPTURE = capture.Capture
CELLS = sorted(plan(SETTINGS), key=lambda cell: (cell.delay_ns, cell.buffer_bytes))


class Probes(Measurements):
    """Measurements in which the probe of one queue size or one delay fails a number of times."""

    def __init__(self, *, times: int = 99, **broken: int):
        super().__init__(None, SETTINGS.topology, self._apply, None)
        self._broken, self._times, self.tries = broken, times, 0

    def _apply(self, cell) -> None:
        self._cell = cell

    def _try(self, cell, name: str) -> None:
        if getattr(cell, name) == self._broken.get(name):
            self.tries += 1
            if self.tries <= self._times:
                raise UserError("no reply", where="node h1")

    def _round_trip(self, path: str) -> int:
        self._try(self._cell, "delay_ns")
        return 1000 + self._cell.delay_ns

    def _fill(self, cell, path: str) -> tuple[int, int]:
        self._try(cell, "buffer_bytes")
        return cell.rate_bps, cell.buffer_bytes


@pytest.mark.parametrize(
    ("broken", "failed"),
    [
        ({"buffer_bytes": 50_000}, [True, False, True, False]),
        ({"delay_ns": 20_000_000}, [False, False, True, True]),
        ({"delay_ns": 0}, [True, True, True, True]),
        ({"buffer_bytes": 50_000, "times": 1}, [False, False, False, False]),
    ],
)
def test_failed_probe_fails_the_cells_that_need_it(broken, failed):
    probes = Probes(**broken)
    probes.measure(CELLS)
    assert [probes.error_of(cell) for cell in CELLS] == [
        "probe: node h1: no reply" if each else None for each in failed
    ]
    assert probes.tries == 2, "a probe is tried twice"


class Delayed(runner.Delays):
    """A delayed direction with ten more packets at each query, one of them lost."""

    def __init__(self):
        super().__init__(None, SETTINGS.topology, "return")
        self._asked = itertools.count(1)

    def counts(self) -> dict[str, Counts]:
        asked = next(self._asked)
        return {"delay-rev": Counts(10 * asked, asked, 0, 0, 1000, 500)}


LINKS = SETTINGS.topology.emulated()
IDLE_LINKS = {
    "is_empty.return_value": True,
    "counters.return_value": dict.fromkeys(LINKS, (0, 0, 0)),
    "returned_bytes.return_value": dict.fromkeys(LINKS, 0),
}
FLOW = Flow(
    0, "path", 40001, 5201, 1000, 50, "iperf3-0.json", started_ns=0, ended_ns=0, exit_code=0, start_error_ns=0
)  # fmt: skip
NO_FRAMES = {"frames": 0, "dropped": 0, "snaplen": 100, "file": None}


@pytest.fixture
def runner_with_stubs(monkeypatch) -> Runner:
    """Return a runner whose nodes, emulation, probes, transfers and captures are stubs; results and flags are real."""
    created = Runner.__new__(Runner)
    created._settings, created._topology = SETTINGS, SETTINGS.topology
    created._environment, created._hosts = {"processors": 2}, Mock(spec=Hosts)
    created._nodes = SimpleNamespace(load=lambda node: 2.0, device=lambda node, peer: f"{node}-{peer}")
    created._emulation, created._delays = Mock(spec=Emulation, **IDLE_LINKS), Delayed()
    created._measurements = Probes()
    created._measurements.measure(CELLS)
    idle = Mock(spec=transfer.Transfer, **{"run.side_effect": lambda: Outcome([replace(FLOW)])})
    monkeypatch.setattr(runner, "Transfer", lambda *_: idle)
    monkeypatch.setattr(runner, "BACKGROUND_S", 0)
    no_capture = contextlib.nullcontext(Mock(spec=CAPTURE, **{"stop.return_value": NO_FRAMES}))
    monkeypatch.setattr(capture, "Capture", lambda *_: no_capture)
    monkeypatch.setattr(capture, "frames_over_mtu", lambda directory: 0)
    monkeypatch.setattr(capture, "digest", lambda directory: None)
    return created


def grid_of(runner_with_stubs, results: Results, cells: list) -> list[dict]:
    """Run cells and return the cell.json of each."""
    results.prepare()
    run_grid(runner_with_stubs, cells, cells, results, lambda line: None)
    found = [json.loads((results.directory / cell.cell_id / "cell.json").read_text()) for cell in cells]
    for content in found:
        validate_written(content)
    return found


def errors_of(runner_with_stubs, directory, cells: list) -> list[str | None]:
    """Run cells and return the error of each."""
    return [content["error"] for content in grid_of(runner_with_stubs, Results(directory), cells)]


def test_failed_digest_fails_its_run_only(tmp_path, monkeypatch, runner_with_stubs):
    failed = UserError("acapella digest failed: damaged", where="wire.pcap")
    monkeypatch.setattr(capture, "digest", Mock(side_effect=[None, failed, None, None]))
    found = grid_of(runner_with_stubs, Results(tmp_path), CELLS)
    assert [content["error"] for content in found] == [None, "wire.pcap: acapella digest failed: damaged", None, None]
    assert (found[1]["wire"], found[1]["attempts"]) == (None, 1)


def test_counts_of_delayed_directions_cover_only_the_run(tmp_path, runner_with_stubs):
    for content in grid_of(runner_with_stubs, Results(tmp_path), CELLS[:2]):
        counts = {"packets": 10, "lost": 1, "reordered": 0, "dropped": 0, "late_p99_ns": 1000, "early_p99_ns": 500}
        assert content["measured"]["delayed"] == {"delay-rev": counts}
        assert content["flags"] == ["loss_off"]


@pytest.mark.parametrize(("load", "flags"), [(2.0, ["loss_off"]), (2.01, ["load_high", "loss_off"])])
def test_run_on_a_busy_machine_is_flagged(tmp_path, monkeypatch, runner_with_stubs, load, flags):
    monkeypatch.setattr(runner_with_stubs._nodes, "load", lambda node: load)
    (content,) = grid_of(runner_with_stubs, Results(tmp_path), CELLS[:1])
    assert (content["measured"]["load"], sorted(content["flags"])) == (load, flags)


def test_traffic_opposite_to_the_data_counts_as_background(tmp_path, runner_with_stubs):
    (name,) = LINKS
    runner_with_stubs._emulation.returned_bytes.side_effect = [{name: 1000}, {name: 1_001_000}]
    (content,) = grid_of(runner_with_stubs, Results(tmp_path), CELLS[:1])
    assert content["measured"]["background_bps"] > 0 and "background" in content["flags"]


def test_run_over_a_link_that_does_not_become_idle_fails(tmp_path, monkeypatch, runner_with_stubs):
    monkeypatch.setattr(runner, "IDLE_S", 0)
    runner_with_stubs._emulation.is_empty.return_value = False
    assert errors_of(runner_with_stubs, tmp_path, CELLS[:1]) == [
        "an emulated link is not idle after 0 s; other traffic uses it"
    ]


def test_failed_probe_is_the_error_of_its_runs(tmp_path, runner_with_stubs):
    runner_with_stubs._measurements = Probes(buffer_bytes=100_000)
    runner_with_stubs._measurements.measure(CELLS)
    assert errors_of(runner_with_stubs, tmp_path, CELLS) == [None, "probe: node h1: no reply"] * 2


@pytest.mark.parametrize(
    ("broken", "counted"),
    [("_delays.counts", [{}]), ("_emulation.counters", [dict.fromkeys(LINKS, (0, 0, 0))] * 3)],
)
def test_capture_ends_if_counts_cannot_be_read_after_the_transfer(
    tmp_path, monkeypatch, runner_with_stubs, broken, counted
):
    """``counted``: replies before the end of the transfer; counters are also read to detect other traffic."""
    program, (owner, name) = Mock(spec=Tcpdump), broken.split(".")
    monkeypatch.setattr(capture, "Capture", CAPTURE)
    monkeypatch.setattr(capture, "Tcpdump", lambda *_: program)
    reading = Mock(side_effect=[*counted, UserError("lost connection", where="node r1")])
    monkeypatch.setattr(getattr(runner_with_stubs, owner), name, reading)
    assert errors_of(runner_with_stubs, tmp_path, CELLS[:1]) == ["node r1: lost connection"]
    assert program.method_calls == [call.start(), call.kill()]


def test_unreachable_node_does_not_keep_programs_on_other_nodes_running(monkeypatch, capsys):
    monkeypatch.setattr(transfer, "END_S", 0)
    error = UserError("lost connection", where="node h1")
    lost = Mock(**{"poll.side_effect": error, "wait.side_effect": error})
    client, server = (Mock(**{"poll.return_value": None, "wait.return_value": None}) for _ in range(2))
    ended = transfer.Transfer(None, SETTINGS.topology, CELLS[0], 1, 0)
    ended._clients, ended._servers = [lost, client], [server]
    with pytest.raises(UserError, match="lost connection"):
        ended._end(failed=False)
    assert client.signal.call_args_list == server.signal.call_args_list == [call("TERM"), call("KILL")]
    ended._end(failed=True)
    assert "warning: node h1: lost connection" in capsys.readouterr().err, "it does not replace the first error"


@pytest.mark.parametrize("reason", [None, UserError("10 consecutive runs failed"), KeyboardInterrupt()])
def test_cleanup_error_does_not_stop_cleanup_or_hide_the_first_error(capsys, reason):
    ended, broken = Runner.__new__(Runner), Mock(**{"remove.side_effect": UserError("tc failed", where="node r2")})
    ended._emulation = ended._hosts = ended._delays = broken
    with pytest.raises(BaseException) as caught, ended:
        if reason is not None:
            raise reason
    assert broken.method_calls == [call.remove(), call.restore(), call.close()]
    if reason is None:
        assert f"{caught.value}" == "node r2: tc failed"
    else:
        assert caught.value is reason
        assert capsys.readouterr().err == "transfer: warning: node r2: tc failed\n"


def test_full_disk_ends_the_grid(tmp_path, monkeypatch, runner_with_stubs):
    monkeypatch.setattr(capture, "digest", Mock(side_effect=UserError("no space left", where=tmp_path, outside=True)))
    with pytest.raises(UserError, match="no space left"):
        grid_of(runner_with_stubs, Results(tmp_path), CELLS)


def test_slice_that_does_not_work_ends_the_grid(tmp_path, runner_with_stubs):
    cells = [replace(CELLS[0], run=run) for run in range(MAX_CONSECUTIVE_FAILURES + 1)]
    runner_with_stubs._emulation.apply.side_effect = UserError("lost connection", where="node r1")
    with pytest.raises(
        UserError, match=f"{MAX_CONSECUTIVE_FAILURES} consecutive runs failed; the last: node r1: lost connection"
    ):
        grid_of(runner_with_stubs, Results(tmp_path), cells)
    assert Results(tmp_path).is_missing(cells[-1], retry=False)


def test_run_is_repeated_until_it_has_failed_three_times(tmp_path, monkeypatch, runner_with_stubs):
    monkeypatch.setattr(capture, "digest", Mock(side_effect=UserError("damaged", where="wire.pcap")))
    results, (cell, *_) = Results(tmp_path), CELLS
    for _ in range(MAX_ATTEMPTS):
        assert results.is_missing(cell, retry=False)
        grid_of(runner_with_stubs, results, [cell])
    assert results.attempts(cell) == MAX_ATTEMPTS == 3
    assert not results.is_missing(cell, retry=False)
    assert results.is_missing(cell, retry=True)
    assert results.write_complete([cell]) == [f"{cell.cell_id}: wire.pcap: damaged"]
    monkeypatch.setattr(capture, "digest", lambda directory: None)
    assert errors_of(runner_with_stubs, tmp_path, [cell]) == [None]
    assert not results.is_missing(cell, retry=True)


def test_grid_fails_only_if_all_runs_failed(capsys):
    check_failed([], 3)
    assert not capsys.readouterr().err
    check_failed(["a-0: no reply"], 3)
    assert "warning: 1 of 3 runs failed; the first: a-0: no reply" in capsys.readouterr().err
    with pytest.raises(UserError, match="2 of 2 runs failed: a-0: no reply"):
        check_failed(["a-0: no reply", "b-0: x"], 2)


def test_values_of_a_failed_probe_are_not_used():
    probes = Probes(buffer_bytes=50_000)
    probes.measure(CELLS)
    found = measurement.measured_values(probes.of(CELLS[3]))
    assert (found["buffer_bytes"], found["rtt_ns"]) == (100_000, 20_001_000)


def test_key_that_the_schema_does_not_describe_is_an_error(tmp_path, monkeypatch, runner_with_stubs):
    monkeypatch.setitem(runner_with_stubs._environment, "unknown", 1)
    with pytest.raises(load_jsonschema().ValidationError, match="'unknown' was unexpected"):
        grid_of(runner_with_stubs, Results(tmp_path), CELLS[:1])


def test_probe_waits_until_a_killed_program_has_freed_its_port(monkeypatch):
    with socket.create_server(("", 0)) as blocking, socket.socket() as link:
        port = blocking.getsockname()[1]
        monkeypatch.setattr(probe.time, "sleep", lambda _: blocking.close())
        probe.bind(link, port)
        assert link.getsockname()[1] == port
    monkeypatch.setattr(probe, "FREE_S", 0)
    with socket.create_server(("", 0)) as blocking, socket.socket() as link, pytest.raises(OSError, match="in use"):
        probe.bind(link, blocking.getsockname()[1])
