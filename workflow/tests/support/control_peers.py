"""Both sides of the control channel: a collector that listens, and what a control plane needs to reach it."""

import asyncio
import contextlib
import itertools
import tempfile
import threading
from pathlib import Path

from acapella.collector.control import ControlServer
from acapella.collector.sessions import Sessions
from acapella.common import control_channel as channel
from acapella.common.control_channel import Collector, QueuePair, Secret

PATIENCE_S = 300  # never reached but where something hangs
PATIENT = channel.Pace(alive_s=0.02, dead_s=PATIENCE_S, secret_s=PATIENCE_S)
SECRET = Secret("5ec7e7" * 10 + "0000")


class Rings:
    """Receives nothing: it counts queue pairs up and remembers which were taken back."""

    def __init__(self):
        self.retired = []
        self.epoch = 0
        self._numbers = itertools.count(100)

    def issue(self, count, ring_bytes, report_format):
        del report_format
        return tuple(QueuePair(i, next(self._numbers), 1 << 31, 4096, ring_bytes, 9) for i in range(count))

    def next_epoch(self):
        return self.epoch

    def retire(self, numbers):
        self.retired += numbers


@contextlib.contextmanager
def listening(rings, pace=PATIENT):
    """A collector's control channel in a thread of its own: its server and its port."""
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
def collector_at(port, secret=SECRET):
    """The collector that listens at a port, and a private file with its secret."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(f"{secret.value}\n")
        file.flush()
        yield Collector("127.0.0.1", port, Path(file.name))
