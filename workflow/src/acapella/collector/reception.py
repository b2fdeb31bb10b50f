"""The receiving thread: it alone feeds the core; queue pairs come and go between two of its steps.

The core's counters and snapshots may be looked at from any thread meanwhile.
"""

import concurrent.futures
import contextlib
import queue
import secrets
import threading
from collections.abc import Callable, Iterator

from acapella.common.control_channel import REPORT_BYTES, QueuePair, Refused
from acapella_core import collector as core
from acapella_core.errors import UserError

from .settings import Settings

ATTENDED_S = 10.0  # a step of the core takes far less
FIRST_NUMBER = 2  # 0 and 1 are queue pairs of the subnet's management (IBTA 1.4, 3.5.10)
NUMBERS = (1 << 24) - 1 - FIRST_NUMBER  # the last one is multicast
PAGE = 4096
ADDRESSES = 1 << 47  # of a process
EPOCHS_UNDER_WAY = 1024  # more than can begin while reports of a data plane that is gone wait to be received
LAST_EPOCH = (1 << 32) - 1


class Reception:
    """A core and the thread that feeds it. ``failure`` is what ended the thread, where something did."""

    def __init__(self, settings: Settings, collector: core.Collector):
        self._settings = settings
        self.collector = collector
        self._orders: queue.SimpleQueue[tuple[Callable[[], object], concurrent.futures.Future]] = queue.SimpleQueue()
        self._numbers = {pair.number for pair in settings.queue_pairs}  # of this run
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reception")
        self.failure: Exception | None = None
        self.files: list[dict] = []  # how each capture ended

    @contextlib.contextmanager
    def running(self) -> Iterator["Reception"]:
        """Receive until the block is left, or the source has no more."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    @property
    def over(self) -> bool:
        """Nothing more comes."""
        return self._over.is_set()

    def wait_until_ready(self) -> None:
        """Wait until reports would be received. Raises what prevents it."""
        self._ready.wait()
        if self.failure:
            raise self.failure

    def issue(self, count: int, ring_bytes: int, report_format: int) -> tuple[QueuePair, ...]:
        """New queue pairs, with numbers, keys and addresses that nobody can guess. Raises Refused."""
        if report_format != self._settings.report_format:
            raise Refused(f"this collector takes reports of format {self._settings.report_format}")
        return tuple(self._add(index, ring_bytes) for index in range(count))

    def next_epoch(self) -> int:
        """A number for the first epoch of a data plane that begins now: all reports so far are of earlier ones."""
        newest = self._order(self.collector.newest_epoch)
        return min(newest + EPOCHS_UNDER_WAY, LAST_EPOCH) if newest else 0

    def retire(self, numbers: list[int]) -> None:
        """Refuse and count reports to these queue pairs from now on."""
        for number in numbers:
            with contextlib.suppress(Refused):  # at the end nothing comes any more
                self._order(lambda number=number: self.collector.remove_queue_pair(number))

    def flush(self) -> None:
        """Have the rows of the series that there are written, so that who asks sees them."""
        with contextlib.suppress(Refused):  # at the end all are
            self._order(self.collector.write_series)

    def _add(self, index: int, ring_bytes: int) -> QueuePair:
        """Bring a queue pair into use: the device's where there is one."""
        report_bytes = REPORT_BYTES[self._settings.report_format]
        if not self._settings.rdma_device:
            pair = self._new_pair(index, ring_bytes)
            self._order(lambda: self.collector.add_queue_pair(of_core(pair, self._settings.report_format)))
            return pair
        rdma = core.Rdma(
            peer=self._settings.rdma_peer,
            slots=ring_bytes // report_bytes,
            device=self._settings.rdma_device,
            port=self._settings.rdma_port,
            gid_index=self._settings.rdma_gid_index,
            psn=secrets.randbits(24),
        )
        made = self._order(lambda: self.collector.open_rdma(rdma, alone=self._settings.a_session == 1))
        return QueuePair(index, made.number, made.key, made.base, ring_bytes, made.psn)

    def _new_pair(self, index: int, ring_bytes: int) -> QueuePair:
        number = FIRST_NUMBER + secrets.randbelow(NUMBERS)
        while number in self._numbers:
            number = FIRST_NUMBER + secrets.randbelow(NUMBERS)
        self._numbers.add(number)
        base = PAGE * (1 + secrets.randbelow((ADDRESSES - ring_bytes) // PAGE - 1))
        return QueuePair(index, number, secrets.randbits(32), base, ring_bytes, secrets.randbits(24))

    def _order(self, do: Callable[[], object]) -> object:
        """Have the receiving thread do something between two steps; what came of it. Raises Refused."""
        done: concurrent.futures.Future = concurrent.futures.Future()
        self._orders.put((do, done))
        if self._over.is_set():
            self._attend()
        try:
            return done.result(ATTENDED_S)
        except UserError as error:
            raise Refused(str(error)) from error
        except TimeoutError:
            raise Refused("the collector is too busy") from None

    def _attend(self) -> bool:
        """Do what was ordered; whether to end."""
        self._ready.set()
        with contextlib.suppress(queue.Empty):
            while True:
                do, done = self._orders.get_nowait()
                try:
                    if self._over.is_set():
                        raise Refused("the collector is ending")
                    done.set_result(do())
                except Exception as error:
                    done.set_exception(error)
        return self._stop.is_set()

    def _run(self) -> None:
        """The thread: the source to its end."""
        try:
            if self._settings.interface:
                self.collector.run_interface(self._settings.interface, attend=self._attend)
            elif self._settings.rdma_device:
                check_rdma(self._settings.rdma_device)
                self.collector.run_rdma(self._attend)
            for path in self._settings.captures:
                if not self._attend():
                    end = self.collector.feed(path, self._attend, self._settings.limits)
                    self.files.append({"file": path.name, **end})
        except Exception as failure:
            self.failure = failure
        finally:
            self._over.set()
            self._attend()


def of_core(pair: QueuePair, report_format: int) -> core.QueuePair:
    """A queue pair as the core has it: its ring in reports."""
    return core.QueuePair(pair.number, pair.key, pair.base, pair.size // REPORT_BYTES[report_format], pair.psn)


def check_rdma(device: str) -> None:
    """Raise UserError where there is no such RDMA device."""
    there = core.rdma_devices()
    if device not in there:
        raise UserError(
            "there is no such device", where=f"RDMA device {device}", fix=f"there are {', '.join(there) or 'none'}"
        )
