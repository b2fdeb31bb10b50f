"""Programs on FABRIC's nodes, over SSH.

FABRIC's client returns no exit status, repeats a command when the connection is lost, and fails on output that is not
UTF-8. Therefore, an agent on the node (agent.py) executes each command. The agent replies in one line of base64; jobs
have names, so that it finds a job again if the command is repeated.
"""

import base64
import concurrent.futures
import contextlib
import json
import re
import select
import shlex
import time
import uuid
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import CompletedProgram, Job
from . import replies
from .background import submit
from .login import is_refusal
from .session import GRAPH_LOCK, format_error

REPLY = re.compile(r"acapella-reply:([A-Za-z0-9+/=]+);")
REPLY_S = 60  # timeout of the connection and a command that returns immediately
LONG_S = 60  # a collection that ends does not wait for commands that take longer
STOP_POLL_S = 0.5
# Maximum output that is read from a command. A reply has two strings of agent.MAX_TEXT, whose bytes may take 6
# characters in JSON and 8 in base64. The limit is also less than the memory of a small machine.
MAX_OUTPUT_BYTES = 20_000_000
SELECT_S = 10
BLOCK_BYTES = 1 << 16
SHELL = (
    'if [ "$(id -u)" = 0 ]; then as_root=; else as_root="sudo -n"; fi; '
    '$as_root python3 -IS -c {program} "$HOME/{directory}" {command} {arguments}'
)


class StoppedError(UserError):
    """A long command was not waited for, because the collection ends."""


class TooMuchOutputError(Exception):
    """A node printed more than the maximum size of a reply."""


class Remote:
    """The nodes of a collection or of a grid of transfers. `node_of` returns FABRIC's object of a node, or raises
    UserError.

    `explain_refusal` is called after a rejected login; it raises UserError if retries are useless. `stopped` returns
    whether the collection ends; digests, compression and checksums, which may take an hour, are then not waited for.
    """

    def __init__(
        self,
        node_of: Callable[[str], Any],
        directory: str,
        settings: FabricSettings,
        explain_refusal: Callable[[], None],
        stopped: Callable[[], bool] = lambda: False,
    ):
        self.directory = directory
        self._node_of = node_of
        self._tries = settings.ssh_tries
        self._interval_s = settings.ssh_retry_s
        self._explain_refusal = explain_refusal
        self._stopped = stopped
        self._program = resources.files(__package__).joinpath("agent.py").read_text(encoding="utf-8")

    def call(self, node: str, command: str, *, duration_s: float = 0, **arguments: Any) -> dict[str, Any]:
        """Call a command of the agent; retry if the connection is lost. Raises UserError."""
        line = SHELL.format(
            program=shlex.quote(self._program),
            directory=self.directory,
            command=command,
            arguments=base64.b64encode(json.dumps(arguments).encode()).decode(),
        )
        fault = ""
        for attempt in range(self._tries):
            if attempt:
                time.sleep(self._interval_s)
            output, fault = self._execute(node, line, REPLY_S + duration_s)
            match = REPLY.search(output)
            if match:
                reply = decode_reply(node, command, match[1])
                if "error" in reply:
                    raise UserError(" ".join(reply["error"].split()), where=f"node {node}")
                return reply
        raise UserError(f"no reply after {self._tries} attempts: {fault}", where=f"node {node}")

    def _execute(self, node: str, line: str, limit_s: float) -> tuple[str, str]:
        """Return a command's output, and the reason if it has no reply. After `limit_s`, the connection is closed."""
        node_object = self._node_of(node)
        with GRAPH_LOCK:  # a connection needs the address, which the object caches
            node_object.get_management_ip()
            state = node_object.get_reservation_state()
        if state != "Active":
            return "", f"the node is {state}"
        future = submit(execute, node_object, line)
        try:
            out, err = self._result(future, limit_s)
        except (StoppedError, TooMuchOutputError) as error:
            kind = StoppedError if isinstance(error, StoppedError) else UserError
            raise kind(str(error), where=f"node {node}") from None
        except concurrent.futures.TimeoutError:
            node_object.close_ssh()
            return "", f"silent for {limit_s:.0f} s"
        except UserError:  # raised by host_keys: retries cannot succeed
            raise
        except Exception as error:  # an exception of paramiko or of the operating system
            if is_refusal(error):  # by the bastion host or by the node; the error does not distinguish them
                self._explain_refusal()
            return "", format_error(error)
        lines = err.strip().splitlines()
        return out, lines[-1] if lines else "the connection ended"

    def _result(self, future: concurrent.futures.Future, limit_s: float) -> tuple[str, str]:
        """Return the output of a command. Raises StoppedError, and TimeoutError after `limit_s`."""
        if limit_s <= REPLY_S + LONG_S:
            return future.result(limit_s)
        end = time.monotonic() + limit_s
        while not concurrent.futures.wait([future], STOP_POLL_S).done:
            if self._stopped():
                raise StoppedError("interrupted")
            if time.monotonic() > end:
                break
        return future.result(0)

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float, stdin: str) -> CompletedProgram:
        """Run a program to its end. Raises UserError after `timeout_s`, or if the collection ends."""
        job = f"run-{new_job_name()}"
        words = {"job": job, "argv": list(argv), "stdin": stdin, "seconds": timeout_s}
        try:
            reply = self.call(node, "run", duration_s=timeout_s, **words)
        except StoppedError:
            with contextlib.suppress(UserError):  # unreachable
                self.call(node, "kill", job=job, name="KILL")
            raise
        if reply.get("late"):
            raise UserError(f"{argv[0]} timed out after {timeout_s} s", where=f"node {node}")
        return CompletedProgram(reply["status"], reply["out"], reply["log"])

    def put(self, node: str, source: Path, file: str) -> None:
        """Upload a local file to a node's file. Raises UserError.

        The content is not part of a command, because nodes log commands that are run as root.
        """
        self.call(node, "interfaces")  # ensures a connection and the directory
        upload, fault = f".{self.directory}.{new_job_name()}.part", ""
        for attempt in range(self._tries):
            if attempt:
                time.sleep(self._interval_s)
            try:
                self._node_of(node).upload_file(str(source), upload, retry=1)
            except UserError:
                raise
            except Exception as error:  # an exception of paramiko or of the client
                fault = format_error(error)
                continue
            self.call(node, "accept_upload", path=upload, file=file)
            return
        raise UserError(f"{source.name} cannot be uploaded: {fault}", where=f"node {node}")

    def start(self, node: str, argv: Sequence[str], *, output: str | None) -> "RemoteJob":
        """Start a program that keeps running if the connection is lost."""
        name = new_job_name()
        self.call(node, "start", job=name, argv=list(argv), stdin="", output=output)
        return RemoteJob(self, node, name)


def execute(node: Any, line: str) -> tuple[str, str]:
    """Run a command on a node, given as FABRIC's object. Return its output and its standard error.

    FABRIC's client itself would collect output of any length in memory. Raises TooMuchOutputError beyond
    MAX_OUTPUT_BYTES, and an exception of paramiko or of the operating system if the connection fails.
    """
    try:
        _, client = node._get_ssh_connection()
        with client.get_transport().open_session() as channel:
            channel.exec_command(line)
            channel.shutdown_write()
            output, messages = received(channel)
    except Exception:
        node.close_ssh()  # the next attempt connects again
        raise
    return output.decode(errors="replace"), messages.decode(errors="replace")


def received(channel: Any) -> tuple[bytes, bytes]:
    """Return what a command prints until it ends or the connection is lost. Raises TooMuchOutputError."""
    output, messages = bytearray(), bytearray()
    while not channel.closed or channel.recv_ready() or channel.recv_stderr_ready():
        select.select([channel], [], [], SELECT_S)
        if channel.recv_ready():
            output += channel.recv(BLOCK_BYTES)
        if channel.recv_stderr_ready():
            messages += channel.recv_stderr(BLOCK_BYTES)
        if len(output) + len(messages) > MAX_OUTPUT_BYTES:
            raise TooMuchOutputError(f"printed more than {MAX_OUTPUT_BYTES // 1_000_000} MB")
    return bytes(output), bytes(messages)


def decode_reply(node: str, command: str, encoded: str) -> dict[str, Any]:
    """Return the reply of a node to a command. Raises UserError if it is malformed."""
    try:
        return replies.decode(command, encoded)
    except ValueError as error:
        raise UserError(f"malformed reply to {command}: {format_error(error)}", where=f"node {node}") from error


def new_job_name() -> str:
    """Return a unique job name."""
    return uuid.uuid4().hex


class RemoteJob(Job):
    """A program started by `Remote.start`."""

    def __init__(self, remote: Remote, node: str, name: str):
        self._remote = remote
        self._node = node
        self._name = name
        self._last: dict[str, Any] = {"status": None, "log": ""}

    @property
    def is_over(self) -> bool:
        """Return whether the program is known to have ended, without querying the node."""
        return self._last["status"] is not None

    def poll(self) -> int | None:
        return self.wait(0)

    def signal(self, name: str) -> None:
        if self._last["status"] is None:
            self._remote.call(self._node, "kill", job=self._name, name=name)

    def wait(self, timeout_s: float) -> int | None:
        if self._last["status"] is None:
            self._last = self._remote.call(self._node, "state", job=self._name, seconds=timeout_s, duration_s=timeout_s)
        return self._last["status"]

    def log(self) -> str:
        self.wait(0)
        return self._last["log"]
