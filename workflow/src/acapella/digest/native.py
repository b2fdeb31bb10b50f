"""Engine native: the core alone, in one pass. Of tshark it takes the list of vendors, where there is one."""

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from acapella.common import vendors
from acapella_core import _native
from acapella_core.errors import UserError

from .acap_files import BATCH_ROWS, FLOW_BATCH_ROWS


def open_digest(source: str, options) -> "NativeDigest":
    """Open ``source``, a path or ``-``; raises UserError where it is no capture."""
    known = vendors.find()
    core_vendors = known.core if known else None
    with core_errors():
        core = _native.NativeDigest(source, options.site, options.port, BATCH_ROWS, core_vendors, **options.of_core())
        return NativeDigest(core, known)


def flow_batches_of(core) -> Iterator[pa.RecordBatch]:
    """The flow table of any engine's core."""
    for first in range(0, core.flows, FLOW_BATCH_ROWS):
        yield pa.record_batch(core.flow_rows(first, FLOW_BATCH_ROWS))


@contextlib.contextmanager
def core_errors() -> Iterator[None]:
    """Raise the core's InputError and MemoryLimitError as UserErrors."""
    try:
        yield
    except _native.InputError as error:
        raise UserError(str(error)) from error
    except _native.MemoryLimitError as error:
        fix = "raise --memory, or split the capture (editcap -c 1000000 IN OUT)"
        raise UserError(str(error), fix=fix, outside=True) from error


class NativeDigest:
    """Batches of both tables; what every engine gives."""

    def __init__(self, core, known: vendors.Vendors | None):
        self._core = core
        self._vendors = known

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """The frame table, in file order."""
        with core_errors():
            yield from map(pa.record_batch, iter(self._core.next_frames, None))  # keeps no batch while the next is made

    def flow_batches(self) -> Iterator[pa.RecordBatch]:
        """The flow table, once the frames are through."""
        return flow_batches_of(self._core)

    def close(self) -> None:
        """Let go of the capture."""
        self._core = None

    def summary(self) -> dict:
        """What the metadata says of the sample beside the parameters."""
        return self._core.summary() | {"tshark": None, "vendors": self._vendors.told() if self._vendors else None}
