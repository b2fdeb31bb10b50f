"""Signals to the user's experiment, with collections of the fake testbed."""

import threading
from pathlib import Path

import pytest
from acapella_testing.capture.fake_testbed import FakeTestbed
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


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


class Observed(FakeTestbed):
    """Notes in `log` when a mirror is requested and when a site is released; `file` is the signal's."""

    def __init__(self, log: Path, *ports: str, file: Path | None = None, **kinds):
        super().__init__(*ports, **kinds)
        self.log, self.file = log, file
        self.present: list[bool] = []

    def note(self, text: str) -> None:
        with self.log.open("a") as stream:
            stream.write(f"{text}\n")

    def mirror(self, instance, receiver, port, direction):
        self.note(f"mirror-{instance.site}")
        return super().mirror(instance, receiver, port, direction)

    def release(self, site=None):
        if site is not None:
            self.note(f"release-{site}")
        if self.file is not None:
            self.present.append(self.file.exists())
        super().release(site)

    def telemetry(self, site, seconds):  # queried while captures run, at the end of a sample
        if self.file is not None:
            self.present.append(self.file.exists())
        return super().telemetry(site, seconds)


def test_commands_run_once_around_all_samples(tmp_path):
    log = tmp_path / "log"
    testbed = Observed(log, "p", "q")
    events = collected(testbed, tmp_path, start=f"echo start >> {log}", stop=f"echo stop >> {log}")
    assert sum(isinstance(event, dict) for event in events) == 1
    assert lines(log) == ["mirror-S", "start", "stop", "release-S"]


def test_file_exists_while_samples_are_taken(tmp_path):
    file = tmp_path / "sampling"
    file.write_text("left by a killed collection")
    testbed = Observed(tmp_path / "log", "p", file=file)
    collected(testbed, tmp_path, file=str(file), sample_s=1)
    assert testbed.present[0] is True, "at the end of the sample"
    assert testbed.present[1:] and not any(testbed.present[1:]), "at the release"
    assert not file.exists()


def test_sites_begin_together():
    """Site T is allocated only after S has waited; no site samples before both are prepared."""
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


def test_failed_site_does_not_delay_the_others(tmp_path):
    log = tmp_path / "log"
    signal = ExperimentSignal(SignalSettings(None, f"echo start >> {log}", f"echo stop >> {log}", 60), ("S", "T"),
                              pytest.fail, pytest.fail)  # fmt: skip
    signal.ended("T")
    signal.prepared("S", threading.Event())
    signal.sampling("S")
    signal.ended("S")
    signal.ended("S")
    assert lines(log) == ["start", "stop"]


def test_no_signal_without_samples(tmp_path):
    """The mirror does not start, so there is nothing to observe."""
    log = tmp_path / "log"
    testbed = Observed(log, "no_mirror")
    collected(testbed, tmp_path, start=f"echo start >> {log}", stop=f"echo stop >> {log}")
    assert lines(log) == ["mirror-S", "release-S"]


def test_failed_start_ends_the_collection_and_stops_the_experiment(tmp_path):
    log = tmp_path / "log"
    testbed = Observed(log, "p")
    with pytest.raises(UserError, match="'echo no route >&2; exit 3' failed: no route"):
        collected(testbed, tmp_path, cycles=1000, start="echo no route >&2; exit 3", stop=f"echo stop >> {log}")
    assert lines(log)[-2:] == ["stop", "release-S"]


def test_failed_stop_is_a_warning_and_samples_are_kept(tmp_path):
    events = collected(Observed(tmp_path / "log", "p"), tmp_path, stop="exit 3")
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "collect.signal.stop: 'exit 3' failed: exit status 3"
    ]
    assert sum(isinstance(event, dict) for event in events) == 1


def test_command_that_does_not_end_is_killed_with_its_children(tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(UserError, match=r"timed out after 0\.5 s; start a long program in the background"):
        experiment.run(f"sleep 600 & echo $! > {pid}; wait", 0.5)
    child = int(pid.read_text())
    wait_until(lambda: has_ended(child), "the child runs")  # SIGKILL takes effect when the child gets a CPU


def has_ended(pid: int) -> bool:
    """Return whether a process does not exist, or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_plan_contains_the_signals():
    assert list(signal_lines(SignalSettings("/tmp/f", "go", None, 60))) == [
        "when captures run at all sites: create /tmp/f and run 'go'", "after the last sample: remove /tmp/f",
    ]  # fmt: skip
    assert list(signal_lines(None)) == []
