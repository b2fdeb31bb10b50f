"""Controls acapella-link: commands on its standard input, a JSON response for each (capture/link/README.md)."""

import json
import selectors
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from acapella_core.errors import UserError

from ..programs.child_process import kill_and_reap
from ..testbeds.local import processes

PROGRAM = "acapella-link"
VALUES = ("delay_ns", "loss_ppm", "reorder_ppm", "seed", "duplicate_ppm")
RESPONSE_TIMEOUT_S = 20
EXIT_TIMEOUT_S = 5


class Link(ABC):
    """acapella-link for all delayed directions of a slice."""

    realtime: bool  # whether all of its processes have real-time priority

    def set(self, name: str, **values: int) -> None:
        """Set the values of a direction (VALUES, default: 0), starting with its next packet.

        Raises UserError if the link fails, and TypeError for unknown values.
        """
        if unknown := values.keys() - VALUES:
            raise TypeError(f"unknown link values: {', '.join(sorted(unknown))}")
        self._command(name, " ".join(["set", name, *(str(values.get(key, 0)) for key in VALUES)]))

    @abstractmethod
    def statistics(self) -> dict[str, dict[str, int]]:
        """Return the counts of every direction. Raises UserError."""

    @abstractmethod
    def close(self) -> None:
        """End the program."""

    @abstractmethod
    def _command(self, name: str, line: str) -> dict:
        """Send a command for a direction; return the response. Raises UserError."""


def parse_response(response: str | bytes) -> dict:
    """Parse a response of the program. Raises UserError if it reports an error."""
    values = json.loads(response)
    if "error" in values:
        raise UserError(f"{PROGRAM}: {values['error']}")
    return values


class LinkProcess(Link):
    """One acapella-link process for all delayed directions.

    Each direction has a TUN device in a node's network namespace. The constructor starts the process. Raises UserError
    with its message if it does not start.
    """

    def __init__(self, program: Path, devices: Sequence[tuple[str, str]]):
        self._log = processes.SPOOL / "link.log"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                [program, *(f"{name}={processes.NAMESPACES / node}" for name, node in devices)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=processes.environment(),
                cwd=processes.SCRATCH,
                bufsize=0,
            )
        self._responses = selectors.DefaultSelector()
        self._responses.register(self._process.stdout, selectors.EVENT_READ)
        self._buffer = b""
        try:
            self.realtime = self._response()["realtime"]
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process ID of the program."""
        return self._process.pid

    def statistics(self) -> dict[str, dict[str, int]]:
        return self._command("", "statistics")["links"]

    def close(self) -> None:
        self._process.stdin.close()  # the program ends at the end of its input
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            kill_and_reap(self._process)
        self._responses.close()
        self._process.stdout.close()

    def _command(self, name: str, line: str) -> dict:
        del name  # one process for all directions
        try:
            self._process.stdin.write(f"{line}\n".encode())
        except OSError as error:
            raise UserError(f"{PROGRAM} ended: {self._message()}") from error
        return self._response()

    def _response(self) -> dict:
        """Return the next response. Raises UserError if it is an error, or if there is none."""
        deadline = time.monotonic() + RESPONSE_TIMEOUT_S
        while b"\n" not in self._buffer:
            if not self._responses.select(max(0, deadline - time.monotonic())):
                raise UserError(f"{PROGRAM} did not respond")
            part = self._process.stdout.read(65536)
            if not part:
                raise UserError(f"{PROGRAM} ended: {self._message()}")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return parse_response(line)

    def _message(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.poll()}, no message"
