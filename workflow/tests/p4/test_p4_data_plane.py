"""A data plane and its control plane: sessions in its registers, before it begins and while it runs."""

import signal
import subprocess
import threading

import pytest
from acapella_testing.control_peers import PATIENCE_S, PATIENT, Rings, collector_at, listening

from acapella.common.control_channel import Hello
from acapella.p4 import control_plane, data_plane
from acapella_core.errors import UserError

LOADER = """\
#!/bin/sh
# Keeps its control file, answers commands; ends after so many.
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
    """A program that does as the loader does with its control file and commands."""
    path = tmp_path / "loader"
    path.write_text(LOADER)
    path.chmod(0o700)
    for name, value in {"DIRECTORY": str(tmp_path), "COMMANDS": "0", "CODE": "0", "REFUSED": "nothing"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(control_plane, "PACE", PATIENT)
    return path


def starting(loader) -> data_plane.Start:
    """Return what starts it."""
    return lambda more, **options: subprocess.Popen([str(loader), *more], **options)


def run(loader, port: int) -> int:
    """Run it against the collector at ``port``."""
    with collector_at(port) as collector:
        return data_plane.run(starting(loader), collector, Hello("flowstats", 2, "a1"), loader.parent / "stats")


def test_the_first_session_is_in_its_control_file_and_the_end_is_told(loader):
    with listening(Rings()) as (server, port):
        assert run(loader, port) == 0
    lines = (loader.parent / "control").read_text().splitlines()
    assert lines[0].startswith("register epoch 0 1")
    assert lines[1] == "register qp_number 0 0 16"
    assert lines[-2:] == ["register qp_number 0 100", "register qp_number 1 101"]
    assert server.sessions.summary()[0]["reports_sent"] == 77


def test_its_first_epoch_is_behind_those_that_the_collector_has_had(loader):
    rings = Rings()
    rings.epoch = 2**32 - 9
    with listening(rings) as (_, port):
        assert run(loader, port) == 0
    assert (loader.parent / "control").read_text().startswith(f"register epoch 0 {2**32 - 9}\n")


def test_its_exit_code_is_ours(loader, monkeypatch):
    monkeypatch.setenv("CODE", "2")
    with listening(Rings()) as (server, port):
        assert run(loader, port) == 2
    assert server.sessions.summary()[0]["reports_sent"] is None


def test_a_later_session_is_written_by_commands(loader, monkeypatch):
    monkeypatch.setenv("COMMANDS", "14")  # so many take two queue pairs
    with listening(Rings()) as (server, port):
        thread = threading.Thread(target=run, args=(loader, port))
        thread.start()
        while not (loader.parent / "begun").exists():
            thread.join(0.01)
        server.connections[1].transport.abort()  # as the kernel does where the collector is killed
        thread.join(PATIENCE_S)
    later = (loader.parent / "commands").read_text().splitlines()
    assert len(later) == 14
    assert later[-1] == "register qp_number 1 103"
    assert server.sessions.summary()[1]["reports_sent"] == 77


def test_a_register_that_is_missing_is_named_without_its_value(loader, monkeypatch, capfd):
    monkeypatch.setenv("COMMANDS", "14")
    monkeypatch.setenv("REFUSED", "qp_key")
    plane = data_plane.DataPlane(starting(loader), loader.parent)
    session = control_plane.Session(1, 192, 0, Rings().issue(1, 192, 2))
    plane.write(session)
    with pytest.raises(OSError, match="does not take register qp_key 0: error 1: no such register"):
        plane.write(session)
    plane.stop()


def test_where_no_collector_answers_it_says_so(loader, monkeypatch):
    monkeypatch.setattr(data_plane, "PATIENCE_S", 0.2)
    with pytest.raises(UserError, match=r"--collector 127.0.0.1:1: no session: Connection refused"):
        run(loader, 1)
    assert not (loader.parent / "begun").exists()


def test_a_loader_that_is_killed_is_one_line(loader):
    loader.write_text("#!/bin/sh\nkill -9 $$\n")
    with listening(Rings()) as (_, port), pytest.raises(UserError, match="killed by SIGKILL; start it again"):
        run(loader, port)


def test_it_ends_with_its_control_plane(loader, monkeypatch):
    monkeypatch.setenv("COMMANDS", "100")
    plane = data_plane.DataPlane(starting(loader), loader.parent)
    plane.write(control_plane.Session(1, 192, 0, Rings().issue(1, 192, 2)))
    plane.stop()
    assert plane.wait() == -signal.SIGTERM
