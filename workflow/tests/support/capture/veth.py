"""Network namespaces with veth pairs, and frames sent to their interfaces."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.processes import run
from acapella_testing.requirements import require, require_programs, require_root, require_success
from acapella_testing.waiting import wait_until

AF_XDP = 44  # linux/socket.h
SEND = """
import socket, struct, sys, time
raw = open(sys.argv[2], "rb").read()
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
at, sent = 24, 0
while at < len(raw):
    size = struct.unpack_from("<I", raw, at + 8)[0]
    out.send(raw[at + 16 : at + 16 + size])
    at, sent = at + 16 + size, sent + 1
    if sent % 16 == 0:
        time.sleep(0.001)
"""


def send_capture(prefix: tuple[str, ...], interface: str, path: Path) -> None:
    """Send the frames of a pcap to an interface of a namespace, at most 16 per ms."""
    subprocess.run([*prefix, sys.executable, "-c", SEND, interface, str(path)], check=True)


def af_xdp_or_skip() -> None:
    """Skip the test if the kernel has no AF_XDP."""
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        pytest.skip(f"no AF_XDP: {error}")


def holder() -> subprocess.Popen:
    """Start a process with its own network namespace."""
    process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    own = Path("/proc/self/ns/net").readlink()
    wait_until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own, "no network namespace", running=process)
    return process


def inside(process: subprocess.Popen) -> tuple[str, ...]:
    """Return the prefix of a command that runs in the network namespace of a process."""
    return ("nsenter", f"--net=/proc/{process.pid}/ns/net")


@contextlib.contextmanager
def namespace(*pairs: tuple[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a command prefix for a network namespace with these veth pairs. The namespace ends with its process."""
    require_root("no network namespaces")
    require_programs("unshare", "nsenter", "ip")
    require_success(["unshare", "--net", "true"], "network namespaces")
    process = holder()
    try:
        lines = ["link set lo up"]
        for left, right in pairs:
            lines.append(f"link add {left} type veth peer name {right}")
            lines += [f"link set {end} {how}" for how in ("addrgenmode none", "up") for end in (left, right)]
        for line in lines:
            done = run(*inside(process), "ip", *line.split())
            require(done.returncode == 0, f"ip {line}: {done.stderr.strip()}")
        yield inside(process)
    finally:
        process.kill()
        process.wait()
