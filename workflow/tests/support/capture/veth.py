"""Network namespaces with veth pairs, and frames sent to their interfaces."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.capture.dpdk_writer import LIMIT_S
from acapella_testing.requirements import require, require_programs, require_root

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


@contextlib.contextmanager
def namespace(*pairs: tuple[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a command prefix for a network namespace with these veth pairs; it ends with its process."""
    require_root("no network namespaces")
    require_programs("unshare", "nsenter", "ip")
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        prefix = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        own = Path("/proc/self/ns/net").readlink()
        end = time.monotonic() + LIMIT_S
        while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
            if holder.poll() is not None or time.monotonic() > end:
                pytest.skip("network namespaces are not available")
            time.sleep(0.01)
        lines = ["link set lo up"]
        for left, right in pairs:
            lines.append(f"link add {left} type veth peer name {right}")
            lines += [f"link set {end} addrgenmode none" for end in (left, right)]
            lines += [f"link set {end} up" for end in (left, right)]
        for line in lines:
            done = subprocess.run([*prefix, "ip", *line.split()], capture_output=True, text=True, check=False)
            require(done.returncode == 0, f"ip {line}: {done.stderr.strip()}")
        yield prefix
    finally:
        holder.kill()
        holder.wait()
