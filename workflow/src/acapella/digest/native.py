"""Engine native: the core dissects all frames in one pass, with the vendor lists that acapella.common.vendors finds."""

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from acapella.common import vendors
from acapella_core import _native
from acapella_core.errors import UserError

from .acap_files import BATCH_ROWS, FLOW_BATCH_ROWS


def open_digest(source: str, options) -> "NativeDigest":
    """Open a capture: a path, or ``-`` for standard input. Raises UserError if it is not a capture."""
    installed = vendors.find()
    core_vendors = installed.core if installed else None
    with core_errors():
        core = _native.NativeDigest(
            source, options.site, options.port, BATCH_ROWS, core_vendors, **options.core_arguments()
        )
        return NativeDigest(core, installed)


def flow_batches_of(core) -> Iterator[pa.RecordBatch]:
    """Yield the flow table of a core; all engines use it."""
    for first in range(0, core.flows, FLOW_BATCH_ROWS):
        yield pa.record_batch(core.flow_rows(first, FLOW_BATCH_ROWS))


@contextlib.contextmanager
def core_errors() -> Iterator[None]:
    """Convert the core's InputError and MemoryLimitError to UserErrors."""
    try:
        yield
    except _native.InputError as error:
        raise UserError(str(error)) from error
    except _native.MemoryLimitError as error:
        fix = "raise --memory, or split the capture (editcap -c 1000000 IN OUT)"
        raise UserError(str(error), fix=fix, outside=True) from error


class NativeDigest:
    """Engine native. All engines have this interface: batches of both tables, then the metadata of the sample."""

    def __init__(self, core, installed: vendors.Vendors | None):
        self._core = core
        self._vendors = installed

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the frame table in file order. Raises UserError for invalid input or an exceeded memory limit."""
        with core_errors():
            yield from map(pa.record_batch, iter(self._core.next_frames, None))  # map() keeps no earlier batch alive

    def flow_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the batches of the flow table. Call it after the last frame batch."""
        return flow_batches_of(self._core)

    def close(self) -> None:
        """Release the capture."""
        self._core = None

    def positions(self) -> bytes:
        """Return the encoded positions of the frames, for `acapella extract`. Call it after the last frame batch."""
        return self._core.positions()

    def summary(self) -> dict:
        """Return the metadata of the sample that the engine provides."""
        return self._core.summary() | {"tshark": None, "vendors": self._vendors.metadata() if self._vendors else None}
