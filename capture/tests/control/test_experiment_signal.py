"""Signals to the user's experiment, with collections of the fake testbed."""

import threading
from pathlib import Path

import pytest
from acapella_testing.capture.fake_testbed import FakeTestbed
from acapella_testing.capture.process_tree import stat_of
from acapella_testing.new_files import write_file
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.control import experiment
from acapella_capture.control.coordinator import collect
from acapella_capture.control.experiment import ExperimentSignal, Notice
from acapella_capture.plan.dry_run import signal_lines
from acapella_capture.settings import SignalSettings, parse_settings
from acapella_core.errors import UserError

pytestmark = pytest.mark.usefixtures("fake_tcpdump")


def settings(cycles: int = 1, sample_s: float = 0.05, **signal):
    keys = {"testbed": "local", "capture": {"sample_s": sample_s}, "collect": {"signal": signal, "cycles": cycles}}
    return parse_settings(keys)


def collected(testbed, tmp_path, **signal) -> list:
    return list(collect(testbed, settings(**signal), tmp_path / "campaign"))


class Observed(FakeTestbed):
    """Logs requests for mirrors and releases of sites in `log`, and notes whether the signal's `file` exists."""

    def __init__(self, log: Path, *ports: str, file: Path = Path("/nonexistent")):
        super().__init__(*ports)
        self.log, self.file, self.present = log, file, []

    def note(self, text: str) -> None:
        with self.log.open("a") as stream:
            stream.write(f"{text}\n")

    def mirror(self, instance, receiver, port, direction):
        self.note(f"mirror-{instance.site}")
        return super().mirror(instance, receiver, port, direction)

    def release(self, site=None):
        self.note(f"release-{site or 'all'}")
        self.present.append(self.file.exists())
        super().release(site)

    def telemetry(self, site, seconds):  # queried at the end of a sample, while captures run
        self.present.append(self.file.exists())
        return super().telemetry(site, seconds)


@pytest.fixture
def log(tmp_path) -> Path:
    """Provide the file that commands and testbeds write to."""
    return tmp_path / "log"


@pytest.fixture
def commands(log) -> dict[str, str]:
    """Provide the commands at the start and the end of sampling."""
    return {"start": f"echo start >> {log}", "stop": f"echo stop >> {log}"}


def test_commands_run_once_around_all_samples(tmp_path, log, commands):
    assert sum(isinstance(event, dict) for event in collected(Observed(log, "p", "q"), tmp_path, **commands)) == 1
    assert log.read_text().split() == ["mirror-S", "start", "stop", "release-S", "release-all"]


def test_file_exists_while_samples_are_taken(tmp_path, log):
    file = write_file(tmp_path / "sampling", "left by a killed collection")
    testbed = Observed(log, "p", file=file)
    collected(testbed, tmp_path, file=str(file), sample_s=1)
    assert testbed.present[0] is True, "at the end of the sample"
    assert testbed.present[1:] and not any(testbed.present[1:]), "at the release"
    assert not file.exists()


def test_sites_begin_together():
    """Site S does not sample before site T is prepared, too."""
    order: list[str] = []
    signal = ExperimentSignal(SignalSettings(None, "true", None, 60), ("S", "T"), order.append, order.append)
    stop = threading.Event()

    def site_s() -> None:
        signal.prepared("S", stop)
        order.append("S samples")

    with in_background(site_s):
        order.append("T is allocated")
        signal.prepared("T", stop)
    assert order == ["T is allocated", "S samples"]


def test_failed_site_does_not_delay_the_others(log, commands):
    signal = ExperimentSignal(SignalSettings(None, **commands, timeout_s=60), ("S", "T"), pytest.fail, pytest.fail)
    signal.ended("T")
    signal.prepared("S", threading.Event())
    signal.sampling("S")
    signal.ended("S")
    signal.ended("S")
    assert log.read_text().split() == ["start", "stop"]


def test_no_signal_without_samples(tmp_path, log, commands):
    """The mirror does not start, so there is nothing to observe."""
    collected(Observed(log, "no_mirror"), tmp_path, **commands)
    assert log.read_text().split() == ["mirror-S", "release-S", "release-all"]


def test_failed_start_ends_the_collection_and_stops_the_experiment(tmp_path, log, commands):
    with pytest.raises(UserError, match="'echo no route >&2; exit 3' failed: no route"):
        collected(Observed(log, "p"), tmp_path, cycles=1000, **commands | {"start": "echo no route >&2; exit 3"})
    assert log.read_text().split()[-3:] == ["stop", "release-S", "release-all"]


def test_failed_stop_is_a_warning_and_samples_are_kept(tmp_path, log):
    events = collected(Observed(log, "p"), tmp_path, stop="exit 3")
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "collect.signal.stop: 'exit 3' failed: exit status 3"
    ]
    assert sum(isinstance(event, dict) for event in events) == 1


def test_command_that_does_not_end_is_killed_with_its_children(tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(UserError, match=r"timed out after 0\.5 s; start a long program in the background"):
        experiment.run(f"sleep 600 & echo $! > {pid}; wait", 0.5)
    child = int(pid.read_text())
    wait_until(lambda: stat_of(child) is None, "the child runs")  # SIGKILL takes effect when the child gets a CPU


def test_plan_contains_the_signals():
    assert list(signal_lines(SignalSettings("/tmp/f", "go", None, 60))) == [
        "when captures run at all sites: create /tmp/f and run 'go'", "after the last sample: remove /tmp/f",
    ]  # fmt: skip
    assert list(signal_lines(None)) == []
