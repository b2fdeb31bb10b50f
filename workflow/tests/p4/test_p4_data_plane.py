"""A data plane and its control plane: sessions are written to registers before the start and at run time."""

import functools
import signal
import subprocess

import pytest
from acapella_testing.control_peers import PATIENT, Rings, collector_at, listening
from acapella_testing.processes import executable
from acapella_testing.waiting import in_background, wait_until

from acapella.common.control_channel import Hello
from acapella.p4 import control_plane, data_plane
from acapella_core.errors import UserError

LOADER = """\
#!/bin/sh
# Copies its control file, answers commands, and ends after COMMANDS of them.
for last; do :; done
cp "$last" "$DIRECTORY/control"
: > "$DIRECTORY/begun"
[ "$CODE" != 0 ] || echo '{"reports": 77}' > "$DIRECTORY/stats"
n=0
while [ "$n" != "$COMMANDS" ] && read -r line; do
    n=$((n + 1))
    echo "$line" >> "$DIRECTORY/commands"
    case $line in *"$REFUSED"*) echo "error 1: no such register" ;; *) echo ok ;; esac
done
exit "$CODE"
"""


@pytest.fixture
def loader(tmp_path, monkeypatch):
    """Write a program that handles the control file and commands like the loader."""
    for name, value in {"DIRECTORY": str(tmp_path), "COMMANDS": "0", "CODE": "0", "REFUSED": "nothing"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(control_plane, "PACE", PATIENT)
    return executable(tmp_path / "loader", LOADER)


def starter(loader) -> data_plane.Start:
    """Return a function that starts the loader."""
    return lambda more, **options: subprocess.Popen([str(loader), *more], **options)


def run(loader, port: int) -> int:
    """Run the loader with the collector at ``port``."""
    with collector_at(port) as collector:
        return data_plane.run(starter(loader), collector, Hello("flowstats", 2, "a1"), loader.parent / "stats")


def test_first_session_is_in_the_control_file_and_end_is_reported(loader):
    with listening(Rings()) as (server, port):
        assert run(loader, port) == 0
    lines = (loader.parent / "control").read_text().splitlines()
    assert lines[0].startswith("register epoch 0 1")
    assert lines[1] == "register qp_number 0 0 16"
    assert lines[-2:] == ["register qp_number 0 100", "register qp_number 1 101"]
    assert server.sessions.summary()[0]["reports_sent"] == 77


def test_first_epoch_follows_those_that_the_collector_received(loader):
    rings = Rings()
    rings.epoch = 2**32 - 9
    with listening(rings) as (_, port):
        assert run(loader, port) == 0
    assert (loader.parent / "control").read_text().startswith(f"register epoch 0 {2**32 - 9}\n")


def test_exit_code_equals_the_loaders(loader, monkeypatch):
    monkeypatch.setenv("CODE", "2")
    with listening(Rings()) as (server, port):
        assert run(loader, port) == 2
    assert server.sessions.summary()[0]["reports_sent"] is None


def test_later_session_is_written_by_commands(loader, monkeypatch):
    monkeypatch.setenv("COMMANDS", "14")  # for two queue pairs
    with listening(Rings()) as (server, port), in_background(functools.partial(run, loader, port)):
        wait_until((loader.parent / "begun").exists)
        server.connections[1].transport.abort()  # as the kernel does if the collector is killed
    later = (loader.parent / "commands").read_text().splitlines()
    assert len(later) == 14
    assert later[-1] == "register qp_number 1 103"
    assert server.sessions.summary()[1]["reports_sent"] == 77


def test_rejected_register_is_reported_without_its_value(loader, monkeypatch):
    monkeypatch.setenv("REFUSED", "qp_key")
    plane, session = started(loader, monkeypatch)
    with pytest.raises(OSError, match="rejected register qp_key 0: error 1: no such register"):
        plane.write(session)
    plane.stop()


def test_unreachable_collector_is_an_error(loader, monkeypatch):
    monkeypatch.setattr(data_plane, "SESSION_TIMEOUT_S", 0.2)
    with pytest.raises(UserError, match=r"--collector 127.0.0.1:1: no session: Connection refused"):
        run(loader, 1)
    assert not (loader.parent / "begun").exists()


def test_killed_loader_is_an_error(loader):
    loader.write_text("#!/bin/sh\nkill -9 $$\n")
    with listening(Rings()) as (_, port), pytest.raises(UserError, match="killed by SIGKILL; restart it"):
        run(loader, port)


def started(loader, monkeypatch) -> tuple[data_plane.DataPlane, control_plane.Session]:
    """Return a data plane that answers commands, and its first session."""
    monkeypatch.setenv("COMMANDS", "100")
    plane = data_plane.DataPlane(starter(loader), loader.parent)
    session = control_plane.Session(1, 192, 0, Rings().allocate(1, 192, 2))
    plane.write(session)
    return plane, session


def test_stop_terminates_the_loader(loader, monkeypatch):
    plane, _ = started(loader, monkeypatch)
    plane.stop()
    assert plane.wait() == -signal.SIGTERM
