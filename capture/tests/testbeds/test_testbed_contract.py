"""The contract of all testbeds.

For `local`, a pytest inside its namespaces runs this file again, with local/test_local_testbed.py,
local/test_local_traffic.py and local/test_local_ovs.py.
"""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.capture.callers import IN_SANDBOX
from acapella_testing.capture.local_testbed import local_testbed, open_vswitch_or_skip
from acapella_testing.capture.testbed_contract import *  # noqa: F403 - the tests that each testbed passes
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require

from acapella_capture.testbeds.files import FilesTestbed
from acapella_capture.testbeds.local import sandbox
from acapella_core.errors import UserError

PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1)
HERE = Path(__file__)


def files_testbed(directory: Path) -> FilesTestbed:
    """Return a testbed with two sites and three ports."""
    for name in ("a", "b", "c"):
        (directory / f"{name}.pcap").write_bytes(PCAP + name.encode())
    return FilesTestbed(write_file(directory / "s.tsv", "site\tport\tfile\nX\tp\ta.pcap\nX\tq\tb.pcap\nY\tp\tc.pcap\n"))


@pytest.fixture(scope="module", params=["bridge", "ovs"] if sandbox.inside() else ["files"])
def testbed(request, tmp_path_factory):
    """Provide a testbed that has been entered."""
    if request.param == "files":
        created = files_testbed(tmp_path_factory.mktemp("captures"))
    else:
        open_vswitch_or_skip(request.param)
        created = local_testbed(switch=request.param)
    before = created.sites()
    with created:
        assert created.sites() == before  # known without allocating, and unchanged
        yield created


def test_captures_are_linked_by_sample_name(tmp_path):
    files_testbed(tmp_path).fetch("X", "a", tmp_path / "raw" / "a.pcap")
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["a.pcap"]
    assert (tmp_path / "raw" / "a.pcap").read_bytes() == PCAP + b"a"
    with pytest.raises(UserError):
        files_testbed(tmp_path).fetch("X", "none", tmp_path / "other" / "none.pcap")
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(sandbox.inside(), reason="starts the sandbox in which it would run")
def test_local_keeps_the_contract(caller):
    config = str(HERE.parents[3] / "pyproject.toml")
    # The last two run for one caller each; the contract covers traffic and Open vSwitch for both callers, too.
    is_selected = {"test_local_traffic.py": caller.prefix or os.geteuid(), "test_local_ovs.py": not caller.prefix}
    modules = ["test_local_testbed.py", *(module for module, selected in is_selected.items() if selected)]
    files = [str(HERE), *(str(HERE.parent / "local" / name) for name in modules)]
    arguments = [caller.python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-c", config, *files]
    done = run(*caller.prefix, caller.python, "-c", IN_SANDBOX, *arguments, env=caller.env(), timeout=900, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 15
    assert "failed" not in done.stdout
    print(*(line for line in done.stdout.splitlines() if line.startswith("SKIPPED")), sep="\n")


STOPPED_IN_ORDER = """
import signal, sys, time
from acapella_capture.testbeds.local import sandbox
if sandbox.inside():
    sandbox.enter()
    print("running", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("stopped in order", flush=True)
else:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background job
    sandbox.call([sys.executable, *sys.argv])
"""


@pytest.mark.skipif(sandbox.inside(), reason="starts the sandbox in which it would run")
def test_background_job_stops_cleanly_on_sigterm(caller, open_directory):
    """The job does not wait for the timeout that kills the processes inside."""
    argv = [*caller.prefix, caller.python, str(write_file(open_directory / "background.py", STOPPED_IN_ORDER))]
    with subprocess.Popen(argv, env=caller.env(), stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout.readline() == "running\n"
        process.terminate()
        assert process.stdout.read() == "stopped in order\n"


def test_local_testbed_requires_its_own_namespaces():
    require(not sandbox.inside(), "about processes outside the sandbox")
    with pytest.raises(UserError, match="only available inside its own namespaces"):
        local_testbed().prepare()


def test_error_without_namespaces_names_a_fix(monkeypatch):
    """Simulates a machine where neither root nor a user may unshare."""
    denied = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted\n")
    monkeypatch.setattr(sandbox.subprocess, "run", lambda *_, **__: denied)
    with pytest.raises(UserError) as raised:
        sandbox.unshare_argv()
    text = str(raised.value)
    assert "Operation not permitted" in text and "run as root, or allow user namespaces" in text
    assert "\n" not in text


def test_missing_program_names_its_package(monkeypatch):
    monkeypatch.setattr(sandbox, "SBIN", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match=r"tc is missing; apt-get install iproute2"):
        sandbox.require("tc", "iproute2")
    assert os.environ["PATH"] == "/nonexistent" and sys.executable
