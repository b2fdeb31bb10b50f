"""Runs acapella-link on nodes over SSH: it is uploaded, reads commands from a FIFO, and writes responses to a file."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from acapella_core.errors import UserError

from ..testbeds.base import CompletedProgram, Job
from .link_process import EXIT_TIMEOUT_S, PROGRAM, RESPONSE_TIMEOUT_S, Link, parse_response

COMMANDS, RESPONSES = "link-commands", "link-answers"
# The FIFO is opened for reading and writing, so that the program does not reach the end of its input between commands.
START = 'rm -f "$1" && mkfifo -m 600 "$1" && fifo=$1 && shift && exec "$@" <> "$fifo"'
# Send `$2`, if any, to the FIFO `$1`. Wait until `$3` has more than `$4` lines, at most `$5` times 50 ms. Print the
# lines of `$3` after the first `$4`.
SEND = """if [ -n "$2" ]; then printf '%s\\n' "$2" > "$1"; fi
tries=0
while [ "$(wc -l < "$3")" -le "$4" ] && [ "$tries" -lt "$5" ]; do tries=$((tries + 1)); sleep 0.05; done
tail -n "+$(($4 + 1))" "$3"
"""
TRIES = int(RESPONSE_TIMEOUT_S / 0.05)
OWN_NETWORK = "/proc/self/ns/net"  # network namespace of the node


class RemoteLink(Link):
    """One process per node. `start` and `run` are methods of the nodes; `upload` returns the path of a file on a node.

    The constructor starts the processes. Raises UserError with their message if they do not start.
    """

    def __init__(
        self,
        start: Callable[..., Job],
        run: Callable[..., CompletedProgram],
        upload: Callable[[str, Path], str],
        program: Path,
        devices: Sequence[tuple[str, str]],
    ):
        self._run = run
        self._nodes = dict(devices)
        self._jobs: dict[str, Job] = {}
        self._responses: dict[str, int] = {}  # number of responses read so far
        self.realtime = True
        for node in dict.fromkeys(self._nodes.values()):
            names = [f"{name}={OWN_NETWORK}" for name, owner in devices if owner == node]
            argv = ["sh", "-c", START, "sh", COMMANDS, f"./{upload(node, program)}", *names]
            self._jobs[node] = start(node, argv, output=RESPONSES)
            self._responses[node] = 0
            self.realtime &= self._send(node, "")["realtime"]  # the first response: it is ready

    def statistics(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for node in self._jobs:
            found |= self._send(node, "statistics")["links"]
        return found

    def close(self) -> None:
        for job in self._jobs.values():
            job.signal("TERM")
            if job.wait(EXIT_TIMEOUT_S) is None:
                job.signal("KILL")

    def _command(self, name: str, line: str) -> dict:
        return self._send(self._nodes[name], line)

    def _send(self, node: str, line: str) -> dict:
        """Send a command, unless it is empty, to the process of a node; return the next response. Raises UserError."""
        if self._jobs[node].poll() is not None:
            raise self._ended(node)
        argv = ["sh", "-c", SEND, "sh", COMMANDS, line, RESPONSES, str(self._responses[node]), str(TRIES)]
        lines = self._run(node, argv, timeout_s=2 * RESPONSE_TIMEOUT_S).stdout.splitlines()
        if not lines:
            if self._jobs[node].poll() is not None:
                raise self._ended(node)
            raise UserError(f"{PROGRAM} did not respond to {shlex.quote(line)}", where=f"node {node}")
        self._responses[node] += 1
        return parse_response(lines[0])

    def _ended(self, node: str) -> UserError:
        lines = self._jobs[node].log().strip().splitlines()
        fix = "install the kernel's extra modules on the nodes, with netem, or use another fabric.image"
        message = lines[-1] if lines else f"exit status {self._jobs[node].poll()}, no message"
        return UserError(f"{PROGRAM} ended: {message}", where=f"node {node}", fix=fix)
