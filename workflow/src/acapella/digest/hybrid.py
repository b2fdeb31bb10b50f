"""Engines hybrid and tshark: tshark dissects a selection of frames or every frame in addition to the core.

The core dissects every frame and writes frames for tshark to the standard input of tshark. Rows stay in memory until
the output of tshark for them arrives. The selection of frames depends only on the capture, not on the output of tshark,
so a file and a pipe produce the same result. No frames are written to temporary files. tshark exits when its input is
closed.
"""

import contextlib
import os
from collections.abc import Iterator

import pyarrow as pa

from acapella.common import tshark, vendors
from acapella_core import _native
from acapella_core.errors import UserError

from .acap_files import BATCH_ROWS
from .native import core_errors, flow_batches_of


def open_digest(source: str, options) -> "HybridDigest":
    """Open a capture: a path, or ``-`` for standard input. Raises UserError if tshark is missing or cannot start."""
    return HybridDigest(source, options, tshark.find())


class HybridDigest:
    """Engines hybrid and tshark, with the interface of NativeDigest."""

    def __init__(self, source: str, options, program: tshark.Tshark):
        self._source = source
        self._options = options
        self._program = program
        self._vendors = vendors.find(program)
        self._all_frames = options.engine == "tshark"
        self._policy = policy_of(options.deep_frames)
        self._core = None

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the frame table in file order. Raises UserError if the capture cannot be read or tshark fails."""
        # Engine tshark reproduces the output of tshark exactly; unlike columns, fields have no maximum length.
        fields = _native.TSHARK_FIELDS if self._all_frames else _native.TSHARK_COLUMNS
        with (
            core_errors(),
            tshark_errors(self._source),
            self._program.start("-", fields, as_columns=not self._all_frames) as run,
        ):
            self._core = self._open(run)
            try:
                yield from map(pa.record_batch, iter(self._core.next_frames, None))
            except (_native.TsharkInputError, _native.TsharkOutputError):
                run.finish(answer_s=self._options.answer_s)  # raises tshark's error message, if any
                raise
            run.finish(answer_s=self._options.answer_s)

    def _open(self, run: tshark.Run):
        """Return the core with duplicates of the pipes to tshark.

        Closing the originals lets the core signal the end of the input by closing its pipe.
        """
        to_tshark, from_tshark = os.dup(run.stdin.fileno()), os.dup(run.stdout.fileno())
        run.stdin.close()
        run.stdout.close()
        options = self._options
        return _native.HybridDigest(
            self._source,
            options.site,
            options.port,
            BATCH_ROWS,
            self._all_frames,
            _native.SelectionPolicy(*self._policy),
            to_tshark,
            from_tshark,
            self._vendors.core if self._vendors else None,
            **options.core_arguments(),
            timeout_s=options.answer_s,
        )

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
        summary = self._core.summary()
        return summary | {
            "tshark": {
                "version": self._program.version,
                "preferences": list(tshark.PREFERENCES),
                "frames_sent": self._core.frames_sent,
                "contradictions": summary.pop("contradictions"),
                "deep_frames": None if self._all_frames else list(self._policy),
            },
            "vendors": self._vendors.metadata() if self._vendors else None,
        }


def policy_of(deep_frames: tuple[int, ...]) -> tuple[int, ...]:
    """Return the values of --deep-frames, with defaults for omitted ones. Raises UserError if they are invalid."""
    if len(deep_frames) > len(_native.SELECTION_POLICY):
        raise UserError(f"--deep-frames takes at most {len(_native.SELECTION_POLICY)} numbers")
    policy = deep_frames + _native.SELECTION_POLICY[len(deep_frames) :]
    if min(policy) < 1 or max(policy) > 1 << 20:
        raise UserError("--deep-frames takes numbers from 1 to 1048576", where=" ".join(map(str, deep_frames)))
    return policy


@contextlib.contextmanager
def tshark_errors(source: str):
    """Convert the core's exceptions about tshark to UserErrors."""
    try:
        yield
    except _native.TsharkTimeout as error:
        fix = "use --engine native, remove these frames (editcap), or raise --tshark-timeout"
        raise UserError(str(error), where=source, fix=fix) from error
    except (_native.TsharkInputError, _native.TsharkOutputError) as error:
        raise UserError(str(error), where=source) from error
