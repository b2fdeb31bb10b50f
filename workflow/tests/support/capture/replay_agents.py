"""Agents of replayers in this process, with a stand-in or the real program, for tests of the control channel."""

import asyncio
import contextlib
import json
import os
import shlex
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from acapella_testing import processes
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.requirements import required
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.replay import channel
from acapella_capture.replay.agent import Agent, Replayer, Timeouts
from acapella_capture.replay.program import PROGRAM, ReplayProgram, executable
from acapella_core.control_lines import Challenge, Secret

STAND_IN = Path(__file__).with_name("replay_stand_in.py")
SECRET = Secret("5ec7e7" * 10 + "0001")
OTHER_SECRET = Secret("5ec7e7" * 10 + "0002")
TIMEOUT_S = 120  # reached only if something hangs
PATIENT = Timeouts(proof_s=TIMEOUT_S, silent_s=TIMEOUT_S, busy_s=0.1)
NO_CLOCK = {"source": None, "offset_ns": None, "synchronized": None}


def stand_in_argv(**options: object) -> list[str]:
    """Return the command line of a stand-in with options."""
    behavior = ",".join(f"{key}={value}" for key, value in options.items())
    return ["env", f"ACAPELLA_STAND_IN={behavior}", sys.executable, str(STAND_IN)]


def stand_in_on_path(directory: Path, monkeypatch, **options: object) -> None:
    """Have `acapella replay` run a stand-in with options."""
    text = f"#!/bin/sh\nexec {shlex.join(stand_in_argv(**options))}\n"
    script = processes.executable(directory / "bin" / PROGRAM, text)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")


def program_or_skip() -> str:
    """Return the path of the real program; skip the test if it was not built."""
    return required(executable)


@dataclass
class RunningAgent:
    """An agent that listens on loopback; ``log`` contains the lines that it printed."""

    agent: Agent
    port: int
    log: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return its address for a controller."""
        return f"127.0.0.1:{self.port}"

    def counted(self, name: str, number: int = 1) -> None:
        """Wait until a counter has reached a value."""
        wait_until(lambda: self.agent.counts[name] >= number, f"{name} {dict(self.agent.counts)}")

    def logged(self, text: str) -> None:
        """Wait until a line contains a text."""
        wait_until(lambda: any(text in line for line in self.log), f"{text!r} in {self.log}")

    @contextlib.contextmanager
    def session(self) -> Iterator["Peer"]:
        """Yield a controller that the agent has welcomed."""
        with Peer(self.port) as peer:
            peer.receive()
            yield peer


@contextlib.contextmanager
def listening(
    argv: list[str], timeouts: Timeouts = PATIENT, secret: Secret = SECRET, clock_ns: int = 0, **replayer: object
) -> Iterator[RunningAgent]:
    """Run an agent in a thread, with a program; the agent's clock is ``clock_ns`` ahead of this machine's."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as parts:
        log: list[str] = []
        program = parts.enter_context(ReplayProgram(argv, report=log.append))
        directories = {"directory": Path(directory), "scratch": new_directory(Path(directory) / "scratch")}
        facts = directories | {"ports": "eth1", "pacing": "bursts"} | replayer
        clocks = {"clock": lambda: time.time_ns() + clock_ns, "own_clock": lambda: NO_CLOCK}
        agent = Agent(Replayer(program, **facts), secret, timeouts, **clocks, log=log.append)
        agent.over, agent.failure, address = threading.Event(), [], Future()

        def serve() -> None:
            try:
                asyncio.run(agent.serve("127.0.0.1", 0, lambda _host, port: address.set_result(port)))
            except Exception as error:
                agent.failure.append(error)
            finally:
                agent.over.set()
                address.cancel()  # if the agent did not listen

        parts.enter_context(in_background(serve))
        parts.callback(agent.request_stop)
        yield RunningAgent(agent, address.result(TIMEOUT_S), log)


class Peer:
    """A peer that can send any bytes. It authenticates itself if it has a secret."""

    def __init__(self, port: int, secret: Secret | None = SECRET):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._lines = self.socket.makefile("rb")
        self.challenge = Challenge(json.loads(self._lines.readline())["challenge"])
        if secret is not None:
            ours = Challenge.new()
            self.keys = channel.Keys.derive(secret, self.challenge, ours)
            self.writer = channel.Writer(self.keys.from_controller)
            self.reader = channel.Reader(self.keys.from_agent, channel.MAX_RESPONSE_BYTES)
            self.send(channel.encode_proof(ours, self.keys.proof))

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, line: bytes) -> None:
        self.socket.sendall(line)

    def receive(self) -> dict:
        """Return the next authentic message; {} at the end of the connection."""
        line = self.line()
        return self.reader.message(line[:-1])[1] if line else {}

    def line(self) -> bytes:
        """Return the next line; empty at the end of the connection."""
        try:
            return self._lines.readline()
        except ConnectionResetError:
            return b""

    def ask(self, **message: object) -> dict:
        """Send a valid line and return the response."""
        self.send(self.writer.line(**message))
        return self.receive()

    def record(self) -> None:
        """Have a stand-in record two packets."""
        self.ask(record={"from_ns": 0, "until_ns": 0})
        self.ask(stop={})

    def run_to_end(self) -> None:
        """Have a stand-in record two packets and send them once."""
        self.record()
        self.ask(run={"at_ns": time.time_ns() + 10**8, "loops": 1, "speed_ppm": 1_000_000})
        wait_until(lambda: self.ask(status={})["done"]["run"], "end of the run")

    def leave(self) -> dict:
        """End the session; return the message after the acknowledgment, as receive() does."""
        self.ask(bye={})
        return self.receive()

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def secret_file(directory: Path) -> Path:
    """Write the secret to a private file."""
    path = write_file(directory / "replay.secret", f"{SECRET.value}\n")
    path.chmod(0o600)
    return path
