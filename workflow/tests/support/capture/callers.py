"""Users who run `acapella collect` in a test: root, or an unprivileged user."""

import contextlib
import os
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require_programs, require_success
from acapella_testing.source_tree import ROOT

OTHER_UID = 65534
# For tests that need only one caller, because a campaign takes long and other tests cover the other caller.
AS_ROOT = pytest.mark.parametrize("caller", ["root" if os.geteuid() == 0 else "user"], indirect=True, scope="module")
AS_USER = pytest.mark.parametrize("caller", ["user"], indirect=True, scope="module")
# Makes the packages of the virtual environment, with editable installs and native core, available to another Python.
SITECUSTOMIZE = "import site\nsite.addsitedir({!r})\n".format(sysconfig.get_paths()["purelib"])
# Runs the command of its arguments inside the sandbox.
IN_SANDBOX = "import sys; from acapella_capture.testbeds.local import sandbox; sys.exit(sandbox.call(sys.argv[1:]))"


@dataclass(frozen=True)
class Caller:
    """A user who runs collect: command prefix, interpreter, environment."""

    prefix: tuple[str, ...] = ()
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)

    def argv(self, *arguments: object) -> list[str]:
        return [*self.prefix, self.python, "-m", "acapella_capture.collect", *map(str, arguments)]

    def run(self, *arguments: object, timeout: float = 300) -> subprocess.CompletedProcess:
        return run(*self.argv(*arguments), env=self.env(), timeout=timeout)

    def collect(self, campaign: Path, config: str) -> subprocess.CompletedProcess:
        """Write the text of a config next to the campaign, and collect the campaign with it."""
        return self.run(campaign, "--config", write_file(campaign.with_suffix(".yaml"), config))

    def start(self, *arguments: object) -> subprocess.Popen:
        return subprocess.Popen(self.argv(*arguments), env=self.env(), stdout=subprocess.PIPE, text=True)

    def env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.environment}


def namespaces_or_skip(caller: Caller) -> Caller:
    """Return the caller; skip the test if the caller may not create network namespaces or a program is missing."""
    flags = ["--user", "--map-current-user", "--keep-caps"] if caller.prefix or os.geteuid() else []
    argv = [*caller.prefix, "unshare", *flags, "--fork", "--pid", "--mount-proc", "--net", "true"]
    require_success(argv, "network namespaces")
    require_programs("ip", "tc", "ethtool", "tcpdump", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    return caller


def ordinary_user(directory: Path) -> Caller:
    """Return an unprivileged caller whose interpreter finds our packages through ``directory``."""
    if os.geteuid() != 0:
        return namespaces_or_skip(Caller())
    write_file(directory / "sitecustomize.py", SITECUSTOMIZE).chmod(0o644)
    prefix = ("setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups")
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        caller = Caller(prefix, python, {"PYTHONPATH": str(directory), "HOME": "/nonexistent"})
        # through a shell: setpriv would look up the interpreter with the privileges of root
        argv = [*prefix, "sh", "-c", 'exec "$0" -c "import acapella_capture.collect, acapella_core._native"', python]
        tried = run(*argv, env=caller.env())
        if tried.returncode == 0:
            return namespaces_or_skip(caller)
    reason = closed_directories(ROOT, Path(python), directory) or tried.stderr.strip().splitlines()[-1:]
    pytest.skip(f"user {OTHER_UID} cannot import this project with {python}: {', '.join(map(str, reason))}")


def closed_directories(*paths: Path) -> list[str]:
    """Return the directories on these paths that other users may not enter, each with its mode."""
    directories = dict.fromkeys(each for path in paths for each in (path, *path.parents) if each.is_dir())
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in directories}
    return [f"{each} has mode {mode:04o}" for each, mode in modes.items() if not mode & stat.S_IXOTH]


@contextlib.contextmanager
def readable_directory(mode: int = 0o755) -> Iterator[Path]:
    """Yield a directory that every user may enter; pytest's own directories are private."""
    with tempfile.TemporaryDirectory(prefix="acapella-test-") as name:
        Path(name).chmod(mode)
        yield Path(name)
