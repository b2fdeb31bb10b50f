"""The receiver thread: only this thread feeds the core, and it adds and removes queue pairs between two steps.

Other threads can read the core's counters and snapshots at any time.
"""

import concurrent.futures
import contextlib
import queue
import secrets
import threading
from collections.abc import Callable, Iterator

from acapella.common.control_channel import REPORT_BYTES, QueuePair
from acapella_core import collector as core
from acapella_core.control_lines import InvalidMessage
from acapella_core.errors import UserError

from .settings import Settings

CALL_TIMEOUT_S = 10.0  # a step of the core is much shorter
FIRST_QP_NUMBER = 2  # 0 and 1 are reserved for management (IBTA 1.4, section 3.5.10)
QP_NUMBERS = (1 << 24) - 1 - FIRST_QP_NUMBER  # how many there are; the number 2^24 - 1 is for multicast
PAGE_BYTES = 4096
ADDRESS_SPACE_BYTES = 1 << 47  # address space of a process
MAX_EPOCHS_IN_FLIGHT = 1024  # more epochs than can begin while reports of a disconnected data plane are queued
MAX_EPOCH = (1 << 32) - 1


class ReceiverThread:
    """A core and the thread that feeds it. ``failure`` is the exception that ended the thread, if any."""

    def __init__(self, settings: Settings, collector: core.Collector):
        self._settings = settings
        self.collector = collector
        self._calls: queue.SimpleQueue[tuple[Callable[[], object], concurrent.futures.Future]] = queue.SimpleQueue()
        self._numbers = {pair.number for pair in settings.queue_pairs}  # used in this run
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="receiver")
        self.failure: Exception | None = None
        self.files: list[dict] = []  # how each capture ended

    @contextlib.contextmanager
    def running(self) -> Iterator["ReceiverThread"]:
        """Receive until the block is left or the source ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    @property
    def over(self) -> bool:
        """Return whether the source has ended."""
        return self._over.is_set()

    def wait_until_ready(self) -> None:
        """Wait until the thread receives reports. Raises the exception that prevents this."""
        self._ready.wait()
        if self.failure:
            raise self.failure

    def allocate(self, count: int, ring_bytes: int, report_format: int) -> tuple[QueuePair, ...]:
        """Allocate queue pairs: of the RDMA device, or with random numbers, keys and bases. Raises InvalidMessage."""
        if report_format != self._settings.report_format:
            raise InvalidMessage(f"this collector accepts only reports of format {self._settings.report_format}")
        return tuple(self._add_queue_pair(index, ring_bytes) for index in range(count))

    def next_epoch(self) -> int:
        """Return a data plane's first epoch: larger than those of all reports so far; 0 if there are no reports."""
        newest = self._call(self.collector.newest_epoch)
        return min(newest + MAX_EPOCHS_IN_FLIGHT, MAX_EPOCH) if newest else 0

    def retire(self, numbers: list[int]) -> None:
        """Reject and count reports to these queue pairs from now on."""
        for number in numbers:
            with contextlib.suppress(InvalidMessage):  # the collector is ending
                self._call(lambda number=number: self.collector.remove_queue_pair(number))

    def flush(self) -> None:
        """Write the buffered rows of the series, so that requests can read them."""
        with contextlib.suppress(InvalidMessage):  # at the end, all rows have been written
            self._call(self.collector.write_series)

    def _add_queue_pair(self, index: int, ring_bytes: int) -> QueuePair:
        """Add a queue pair; if there is an RDMA device, it is a queue pair of the device."""
        report_bytes = REPORT_BYTES[self._settings.report_format]
        if not self._settings.rdma_device:
            pair = self._random_queue_pair(index, ring_bytes)
            self._call(lambda: self.collector.add_queue_pair(core_queue_pair(pair, self._settings.report_format)))
            return pair
        rdma = core.Rdma(
            peer=self._settings.rdma_peer,
            slots=ring_bytes // report_bytes,
            device=self._settings.rdma_device,
            port=self._settings.rdma_port,
            gid_index=self._settings.rdma_gid_index,
            psn=secrets.randbits(24),
        )
        opened = self._call(
            lambda: self.collector.open_rdma(rdma, single_ring=self._settings.queue_pairs_per_session == 1)
        )
        return QueuePair(index, opened.number, opened.key, opened.base, ring_bytes, opened.psn)

    def _random_queue_pair(self, index: int, ring_bytes: int) -> QueuePair:
        number = FIRST_QP_NUMBER + secrets.randbelow(QP_NUMBERS)
        while number in self._numbers:
            number = FIRST_QP_NUMBER + secrets.randbelow(QP_NUMBERS)
        self._numbers.add(number)
        base = PAGE_BYTES * (1 + secrets.randbelow((ADDRESS_SPACE_BYTES - ring_bytes) // PAGE_BYTES - 1))
        return QueuePair(index, number, secrets.randbits(32), base, ring_bytes, secrets.randbits(24))

    def _call(self, function: Callable[[], object]) -> object:
        """Call a function in the receiver thread between two steps; return its result. Raises InvalidMessage."""
        done: concurrent.futures.Future = concurrent.futures.Future()
        self._calls.put((function, done))
        if self._over.is_set():
            self._run_calls()
        try:
            return done.result(CALL_TIMEOUT_S)
        except UserError as error:
            raise InvalidMessage(str(error)) from error
        except TimeoutError:
            raise InvalidMessage("the collector is too busy") from None

    def _run_calls(self) -> bool:
        """Run the pending calls; return whether to stop receiving."""
        self._ready.set()
        with contextlib.suppress(queue.Empty):
            while True:
                function, done = self._calls.get_nowait()
                try:
                    if self._over.is_set():
                        raise InvalidMessage("the collector is ending")
                    done.set_result(function())
                except Exception as error:
                    done.set_exception(error)
        return self._stop.is_set()

    def _run(self) -> None:
        """Receive until the source ends."""
        try:
            if self._settings.interface:
                self.collector.run_interface(self._settings.interface, attend=self._run_calls)
            elif self._settings.rdma_device:
                check_rdma(self._settings.rdma_device)
                self.collector.run_rdma(self._run_calls)
            for path in self._settings.captures:
                if not self._run_calls():
                    end = self.collector.feed(path, self._run_calls, self._settings.limits)
                    self.files.append({"file": path.name, **end})
        except Exception as failure:
            self.failure = failure
        finally:
            self._over.set()
            self._run_calls()


def core_queue_pair(pair: QueuePair, report_format: int) -> core.QueuePair:
    """Return a queue pair for the core, which measures rings in reports."""
    return core.QueuePair(pair.number, pair.key, pair.base, pair.size // REPORT_BYTES[report_format], pair.psn)


def check_rdma(device: str) -> None:
    """Raise UserError if the RDMA device does not exist."""
    devices = core.rdma_devices()
    if device not in devices:
        raise UserError(
            "no such device", where=f"RDMA device {device}", fix=f"available: {', '.join(devices) or 'none'}"
        )
