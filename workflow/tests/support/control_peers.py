"""Both sides of the control channel: a listening collector, and what a control plane needs to connect to it."""

import asyncio
import contextlib
import itertools
import tempfile
import threading
from pathlib import Path

from acapella.collector.control import ControlServer
from acapella.collector.sessions import Sessions
from acapella.common import control_channel as channel
from acapella.common.control_channel import Collector, QueuePair
from acapella_core.control_lines import Secret

TIMEOUT_S = 300  # reached only if something hangs
PATIENT = channel.Pace(alive_s=0.02, dead_s=TIMEOUT_S, secret_s=TIMEOUT_S)
SECRET = Secret("5ec7e7" * 10 + "0000")


class Rings:
    """A fake receiver that assigns consecutive queue pair numbers and records retired ones."""

    def __init__(self):
        self.retired = []
        self.epoch = 0
        self._numbers = itertools.count(100)

    def allocate(self, count, ring_bytes, report_format):
        del report_format
        return tuple(QueuePair(i, next(self._numbers), 1 << 31, 4096, ring_bytes, 9) for i in range(count))

    def next_epoch(self):
        return self.epoch

    def retire(self, numbers):
        self.retired += numbers


@contextlib.contextmanager
def listening(rings, pace=PATIENT):
    """Run a collector's control channel in a thread; yield its server and its port."""
    server = ControlServer(Sessions(rings, queue_pairs=2, ring_bytes=1000), SECRET, pace)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        _, port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result()
        yield server, port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def collector_at(port):
    """Yield the address of a collector at a port, with a private file that contains its secret."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{SECRET.value}\n")
        file.flush()
        yield Collector("127.0.0.1", port, Path(file.name))
