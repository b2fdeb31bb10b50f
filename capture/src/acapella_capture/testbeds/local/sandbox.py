"""Runs the local testbed in private namespaces that the kernel removes as a whole.

`call` runs a program as process 1 of new PID, network and mount namespaces (inside a new user namespace if the user is
not root). When process 1 ends for any reason, the kernel kills every process of the PID namespace. The network
and mount namespaces, with their interfaces, qdiscs, bind mounts and the scratch file system, end with the last of these
processes. They have no names outside of the sandbox, so nothing remains. Process 1 itself ends with its caller:
PDEATHSIG kills it if the caller was killed; a closed pipe (the lifeline) interrupts it if the caller is interrupted.
"""

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from acapella_core.errors import UserError

SCRATCH = Path("/dev/shm")  # exists on every Linux, contains no programs, and is not needed inside
LIFELINE = "ACAPELLA_LIFELINE"
NAMESPACES = ("--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net")
# The user's own id with all capabilities as ambient ones, not a mapped root: tcpdump always drops privileges, which a
# root without permission for setgroups(2) cannot do.
USER_NAMESPACE = ("--user", "--map-current-user", "--keep-caps")
SHUTDOWN_S = 20  # time for servers to end; a stopped program does not fetch further captures
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # directories of ip and tc; not in every user's PATH


def inside() -> bool:
    """Return whether this program was started by `call`."""
    return LIFELINE in os.environ


def unshare_argv() -> list[str]:
    """Return the command that creates the namespaces, within a new user namespace if that is needed.

    Raises UserError with instructions if that fails, too.
    """
    unshare = require("unshare", "util-linux")
    choices = [USER_NAMESPACE] if os.geteuid() else [(), USER_NAMESPACE]
    message = ""
    for choice in choices:
        argv = [unshare, *choice, *NAMESPACES]
        attempt = subprocess.run([*argv, "true"], capture_output=True, text=True, check=False)
        if attempt.returncode == 0:
            return argv
        message = (
            attempt.stderr.strip().splitlines()[-1] if attempt.stderr.strip() else f"exit status {attempt.returncode}"
        )
    raise UserError(
        f"network namespaces are not available ({message})",
        where="testbed local",
        fix="run as root, or allow user namespaces: sysctl -w user.max_user_namespaces=10000 "
        "kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (those the kernel has)",
    )


def require(program: str, package: str) -> str:
    """Return the path of a program. Raises UserError naming the Debian package if it is missing."""
    path = shutil.which(program, path=search_path())
    if path is None:
        raise UserError(f"{program} is missing", where="testbed local", fix=f"apt-get install {package}")
    return path


def search_path() -> str:
    """Return PATH with the directories of system programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def call(argv: list[str]) -> int:
    """Run a program in new namespaces and return its exit status.

    Ctrl-C and SIGTERM stop it cleanly; if this process is killed, so is the program.
    """
    unshare = unshare_argv()
    pdeath = [require("setpriv", "util-linux"), "--pdeathsig", "KILL"]
    reading, writing = os.pipe()
    env = {**os.environ, LIFELINE: str(reading), "PATH": search_path()}
    child = subprocess.Popen([*pdeath, *unshare, *argv], env=env, pass_fds=[reading], start_new_session=True)
    os.close(reading)
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        return child.wait()
    finally:
        signal.signal(signal.SIGTERM, previous)
        os.close(writing)
        try:
            child.wait(SHUTDOWN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def interrupt(_number: int, _frame: object) -> None:
    """Treat SIGTERM like Ctrl-C."""
    raise KeyboardInterrupt


def enter() -> None:
    """Set up a program that `call` started: mount a scratch file system, and end the program together with its caller.

    Raises UserError outside of the namespaces, to protect the machine's own network.
    """
    if not inside():
        raise UserError(
            "only available inside its own namespaces", where="testbed local", fix="start it with acapella collect"
        )
    lifeline = int(os.environ[LIFELINE])
    if not os.get_inheritable(lifeline):  # not inheritable: already entered
        return
    os.set_inheritable(lifeline, False)
    mount("acapella", SCRATCH, "tmpfs", data="mode=700")
    signal.signal(signal.SIGTERM, interrupt)
    main = threading.main_thread().ident

    def watch() -> None:
        os.read(lifeline, 1)
        # to the main thread, to interrupt its sleep; not SIGINT, which background jobs of a shell ignore
        signal.pthread_kill(main, signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def mount(source: str, target: str | Path, kind: str | None = None, *, data: str = "", bind: bool = False) -> None:
    """Call mount(2), because mount(8) requires user id 0 regardless of capabilities. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    flags = 4096 if bind else 0  # MS_BIND
    arguments = [os.fsencode(source), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags), data.encode()]
    if libc.mount(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(target))


def unmount(target: Path) -> None:
    """Call umount2(2), detaching immediately. It is not an error if nothing is mounted. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    detach = 2  # MNT_DETACH
    if libc.umount2(os.fsencode(target), detach) != 0 and ctypes.get_errno() != errno.EINVAL:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(target))


def python_argv(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package with the current interpreter."""
    return [sys.executable, "-m", module, *arguments]
