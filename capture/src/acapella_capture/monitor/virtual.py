"""Pairs of virtual Ethernet interfaces between which a search sends packets, in separate namespaces."""

import subprocess
import sys
from pathlib import Path

from acapella_core.errors import UserError

from ..testbeds.base import CompletedProgram
from ..testbeds.local import sandbox

PAIR = ("send{}", "receive{}")
HIDDEN = sandbox.SCRATCH  # a private file system in the namespaces


def entered() -> bool:
    """Return whether this process was started by `call`."""
    return sandbox.inside()


def call() -> int:
    """Rerun this command in namespaces that are removed with it; return its exit status."""
    sandbox.require("ip", "iproute2")
    return sandbox.call([sys.executable, str(Path(sys.executable).with_name("acapella")), *sys.argv[1:]])


def make_pairs(number: int) -> tuple[tuple[str, str], ...]:
    """Create pairs of interfaces, and return their names. Raises UserError."""
    sandbox.enter()
    pairs = tuple((PAIR[0].format(index), PAIR[1].format(index)) for index in range(number))
    for pair in pairs:
        lines = [f"link add name {pair[0]} type veth peer name {pair[1]}"]
        for name in pair:  # without an IPv6 address, the kernel sends nothing on its own
            lines += [f"link set dev {name} addrgenmode none", f"link set dev {name} up"]
        stdin = "\n".join(lines)
        done = subprocess.run(["ip", "-batch", "-"], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = CompletedProgram(done.returncode, done.stdout, done.stderr).failure_reason(stdin)
            raise UserError(f"ip failed: {reason}", where=" and ".join(pair))
    return pairs
