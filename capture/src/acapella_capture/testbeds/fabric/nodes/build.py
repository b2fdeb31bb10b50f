"""acapella-dpdk-capture on a node: built there once from the source archive, with packages of Debian or Ubuntu.

DPDK's drivers for hardware need shared libraries of the node's system, so no program is uploaded. The directory of the
build is named by the hash of the archive. Later samples and collections reuse it.
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from ...base import Job, Testbed
from . import packages
from .source_archive import source_archive

PROGRAM = "acapella-dpdk-capture"
TARGET = f"capture/dpdk/{PROGRAM}"
LOG_BYTES = 1_000_000  # maximum size of the copied log of a failed step
POLL_S = 5  # interval of checks of a step; the job on the node continues if the connection is lost
# Packages of Debian and Ubuntu, each with a command that succeeds if the package is installed and recent enough.
PACKAGES = {
    "gcc": "command -v gcc",
    "libc6-dev": "test -e /usr/include/stdio.h",
    "make": "command -v make",
    "meson": 'case $(meson --version) in 0.* | "") false ;; esac',
    "ninja-build": "command -v ninja",
    "pkg-config": "command -v pkg-config",
    "libdpdk-dev": "pkg-config --exists 'libdpdk >= 22.11'",
    "libpcap-dev": "pkg-config --exists libpcap",
    "liburing-dev": "pkg-config --exists liburing",
    "zlib1g-dev": "pkg-config --exists zlib",
}
SYSTEMS = "Debian 12, Ubuntu 24.04, or a later version"
IMAGES = ("default_debian_12", "default_ubuntu_24")
# Prints the packages that are missing or too old.
MISSING = "".join(f"{{ {check}; }} > /dev/null 2>&1 || printf '%s ' {package}\n" for package, check in PACKAGES.items())
INSTALL = (
    packages.DEFINE
    + f"""exec 2>&1; set -e
command -v apt-get > /dev/null || {{ echo "no apt-get: only Debian and Ubuntu are supported"; exit 1; }}
update_lists
apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout={packages.WAIT_S} install "$@"
"""
)
# `$1`: directory of the build; the archive is next to it.
CONFIGURE = """exec 2>&1; set -e
rm -rf "$1.part" || { sleep 10; rm -rf "$1.part"; }  # a compiler of an interrupted build may still write
mkdir "$1.part"
tar -xzf "$1.tar.gz" -C "$1.part"
rm "$1.tar.gz"
cd "$1.part"
flags() { make -s -f workflow/setup/hardening.mk --eval "flags: ; @echo \\$(strip \\$($1))" flags; }
compile_flags=$(flags HARDENED)  # not in the command below, whose exit status would be that of meson alone
link_flags=$(flags HARDENED_LINK)
meson setup build -Dc_args="$compile_flags" -Dc_link_args="$link_flags"
"""
COMPILE = """exec 2>&1; set -e
cd "$1.part"
ninja -C build "$2"
"""
FINISH = """exec 2>&1; set -e
mv "$1.part/build/$2" "$1.part/program"
"$1.part/program" --version
rm -rf "$1.part/build" "$1.part/capture" "$1.part/p4" "$1.part/workflow"
rm -rf "$1"
mv "$1.part" "$1"
"""
FIX = "see the log, or set capture.method: tcpdump"


@dataclass(frozen=True)
class Step:
    """A step of the preparation of a node: its name in messages, a shell script, and the time limit."""

    name: str
    script: str
    arguments: tuple[str, ...]
    limit_s: float


@dataclass(frozen=True)
class NodeBuild:
    """The build on one node. `report` prints a line of progress; `stopped` returns whether the collection ends.

    `logs`: local directory for the log of a step that fails. `installs`: whether packages may be installed.
    """

    testbed: Testbed
    node: str
    logs: Path
    report: Callable[[str], None]
    stopped: Callable[[], bool]
    installs: bool = True

    def program(self) -> str:
        """Return the path of the program on the node, which is built if missing. Raises UserError."""
        archive = source_archive()
        directory = f"programs-{hashlib.sha256(archive).hexdigest()[:16]}"
        build_path = self.testbed.path_on_node(self.node, directory)
        path = f"{build_path if '/' in build_path else f'./{build_path}'}/program"
        if self._succeeds(f'"{path}" --version'):  # fails if its libraries were removed or replaced
            return path
        self._install()
        self._upload(archive, f"{directory}.tar.gz")
        self.run_step(Step("configure", CONFIGURE, (build_path,), 300))
        self.run_step(Step("compile", COMPILE, (build_path, TARGET), 1800))
        self.run_step(Step("check", FINISH, (build_path, TARGET), 60))
        return path

    def _install(self) -> None:
        """Install the missing packages. Raises UserError, which names them."""
        found = self.testbed.run(self.node, ["sh", "-c", MISSING])
        missing = tuple(found.stdout.split())
        if not missing:
            return
        if not self.installs:
            fix = f"sudo apt-get install {' '.join(missing)}"
            raise UserError(
                f"packages are missing or too old: {', '.join(missing)}", where=f"node {self.node}", fix=fix
            )
        self.run_step(Step("install packages", INSTALL, missing, 1200))
        outdated = self.testbed.run(self.node, ["sh", "-c", MISSING]).stdout.split()
        if outdated:
            raise UserError(f"packages are missing or too old after apt-get: {', '.join(outdated)}",
                            where=f"node {self.node}", fix=f"use {SYSTEMS}")  # fmt: skip

    def _upload(self, archive: bytes, file: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / file
            source.write_bytes(archive)
            self.testbed.put(self.node, source, file)

    def run_step(self, step: Step) -> None:
        """Run a step to its end. Raises UserError, with a decisive line of its log, if it fails or takes too long."""
        self.report(f"{self.node}: {PROGRAM}: {step.name}")
        output = f"{PROGRAM}-{step.name.replace(' ', '-')}.log"
        job = self.testbed.start(self.node, ["sh", "-c", step.script, "sh", *step.arguments], output=output)
        try:
            status = self._wait(job, step)
        except BaseException:
            job.signal("KILL")
            raise
        if status != 0:
            raise self._failure(step, output, "" if status is None else f"exit status {status}")

    def _wait(self, job: Job, step: Step) -> int | None:
        """Return the exit status of a step; None after its time limit. Raises UserError if the collection stops."""
        end = time.monotonic() + step.limit_s
        while (status := job.wait(POLL_S)) is None:
            if self.stopped():
                raise UserError(f"{PROGRAM}: {step.name}: interrupted", where=f"node {self.node}")
            if time.monotonic() > end:
                job.signal("KILL")
                return None
        return status

    def _failure(self, step: Step, output: str, status: str) -> UserError:
        """Return the error of a failed step. The end of its log is copied to this machine. Raises UserError."""
        log = self.logs / f"{self.node}-{output}"
        self.logs.mkdir(parents=True, exist_ok=True)
        remote_log = self.testbed.path_on_node(self.node, output)
        printed = self.testbed.run(self.node, ["tail", "-c", str(LOG_BYTES), remote_log]).stdout  # it may be long
        atomic_text(log, printed)
        lines = [line.strip() for line in printed.splitlines()]
        reason = decisive_line(lines) or status
        if not status:
            reason = f"not finished after {step.limit_s:.0f} s: {reason}"
        return UserError(f"{PROGRAM}: {step.name} failed: {reason}; log: {log}", where=f"node {self.node}", fix=FIX)

    def _succeeds(self, command: str) -> bool:
        return self.testbed.run(self.node, ["sh", "-c", command]).status == 0


def check_build_image(image: str, methods: Iterable[str]) -> None:
    """Raise UserError if a method needs a program that cannot be built with an image of FABRIC."""
    if image.startswith("default_") and image not in IMAGES and set(methods) - {"tcpdump"}:
        raise UserError(f"{image} has no DPDK 22.11, which capture.method dpdk needs", where="fabric.image",
                        fix=f"set fabric.image: {' or '.join(IMAGES)}")  # fmt: skip


def plan_notes(methods: Iterable[str]) -> list[str]:
    """Return lines of the plan of a collection with these methods."""
    built = sorted(set(methods) - {"tcpdump"})
    return [f"method {' and '.join(built)}: nodes build {PROGRAM} before their first sample"] if built else []


def decisive_line(lines: list[str]) -> str:
    """Return the first line of a log that names an error, else the last non-empty line."""
    named = [line for line in lines if "error:" in line.lower() or line.startswith("E: ")]
    filled = [line for line in lines if line]
    return (named or filled[-1:] or [""])[0][:300]
