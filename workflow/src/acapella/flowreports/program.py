"""Runs captures through the flow statistics program, and reads its reports and the counters of all frames."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import decompression, exits
from acapella_core import confinement
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from .settings import PROBE, Settings

ROOT = Path(__file__).resolve().parents[4]
SPEC = ROOT / "p4" / "spec" / "flowstats.spec"
LOADER = "acapella-p4-run"
TERMINATION_S = 10  # time that a loader has to end after SIGTERM, before SIGKILL
PCAP_HEADER, RECORD_HEADER = 24, 16  # bytes
ROCE_HEADERS, ICRC = 14 + 20 + 8 + 12 + 16, 4
TRIGGER, VALID = 4, 6  # byte offsets in a report of format 2 (schemas/report_formats.tsv)
TIMES = {"packet_ns": (176, 256), "iat_ns": (128, 8)}  # byte offset of the field, its bit in `valid`


@dataclass(frozen=True)
class Run:
    """The reports of a run as a pcap file, and the loader's statistics."""

    reports: Path
    statistics: dict

    @property
    def sent(self) -> int:
        """The number of reports that the program sent."""
        return self.statistics["reports"]


def loader() -> str:
    """Return the loader's path. Raises UserError."""
    local = Path(sys.executable).parent / LOADER
    path = str(local) if local.is_file() else shutil.which(LOADER)
    if path is None:
        raise UserError(f"{LOADER} is not installed", fix="install libdpdk-dev and run make setup", outside=True)
    return path


def why_unavailable() -> str | None:
    """Return why the program cannot run on this machine; None if it can."""
    try:
        loader()
    except UserError as error:
        return str(error)
    return None if SPEC.is_file() else f"no {SPEC.name} in {SPEC.parent}"


def reasons() -> dict[int, str]:
    """Return the reasons why a frame triggers no report: name by number, from the JSON file next to the .spec."""
    sidecar = SPEC.with_suffix(".json")
    names = json.loads(sidecar.read_text(encoding="utf-8")).get("reasons", {}) if sidecar.is_file() else {}
    return {int(number): name for number, name in names.items()}


def run(
    captures: Sequence[Path], directory: Path, settings: Settings, undamaged: Sequence[int | None] = (), limits=None
) -> Run:
    """Run the program over captures, merged by time; write control.txt, reports.pcap and program.json to ``directory``.

    ``undamaged``: number of decompressed bytes to read from each capture, None for all (default: all bytes of all
    captures); ``limits``: decompression limits. Raises UserError with the loader's message if it fails, or if its
    counts differ.
    """
    control, reports, counters = (directory / name for name in ("control.txt", "reports.pcap", "program.json"))
    atomic_text(control, settings.control(reasons()))
    command = [loader(), "--parent", str(os.getpid()), "--spec", str(SPEC), "--control", str(control)]
    command += ["--out", str(reports), "--stats", str(counters)]
    with decompression.streamed(captures, undamaged, limits) as streams:
        code, messages = run_loader([*command, *streams.arguments], (reports, counters), streams.descriptors)
    if code != 0:
        message = " ".join(messages.split())
        if not message or code < 0:
            message = f"{LOADER} failed ({exits.describe(code)}): {message or 'no error message'}"
        raise UserError(message, outside=exits.is_outside(code))
    statistics = json.loads(counters.read_text(encoding="utf-8"))
    check(statistics, captures[0])
    return Run(reports, statistics)


def run_loader(command: list[str], outputs: Iterable[Path], descriptors: Sequence[int] = ()) -> tuple[int, str]:
    """Run the loader, which inherits ``descriptors``; return its exit code and messages.

    If this process is interrupted, the loader is terminated, and the files in ``outputs`` are removed. Raises UserError
    if the loader cannot be started.
    """
    null_device = subprocess.DEVNULL
    streams = {"stdin": null_device, "stdout": null_device, "stderr": subprocess.PIPE}
    directories = sorted({path.parent for path in outputs})
    try:
        process = confinement.start(command, directories, **streams, text=True, pass_fds=descriptors)
    except OSError as error:
        raise exits.not_started(command[0], error) from error
    try:
        _, messages = process.communicate()
    except BaseException:
        process.terminate()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=TERMINATION_S)
        finally:  # even after a second interrupt
            process.kill()
            process.wait()
            for path in outputs:  # incomplete
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}.part").unlink(missing_ok=True)
        raise
    return process.returncode, messages


def check(statistics: dict, capture: Path) -> None:
    """Raise UserError if a frame or a probe is missing from the counts."""
    processed = statistics["in"] + statistics["probes"]
    counted = statistics["out"] + sum(statistics["sunk"].values()) + sum(statistics["dropped"].values())
    if processed != counted or statistics["reports"] != statistics["out"]:
        raise UserError(f"{processed} frames processed, {counted} accounted for", where=capture)


def report_times(reports: Path, settings: Settings):
    """Return an Arrow table of (place, ts_ns, probe, packet_ns, iat_ns, shared), a row per report, in order.

    ``packet_ns`` is the time of the flow's last packet, ``iat_ns`` the inter-arrival time before it; both are null if
    the report does not contain them. ``shared``: the report's counts may be too large (collisions.may_collide). All
    reports have the same length, so the file is an array of records. Raises UserError.
    """
    import numpy as np  # noqa: PLC0415 (only here)
    import pyarrow as pa  # noqa: PLC0415

    from .collisions import may_collide  # noqa: PLC0415 (NumPy)

    frame = ROCE_HEADERS + settings.report_bytes + ICRC
    content = np.fromfile(reports, np.uint8, offset=PCAP_HEADER)
    if len(content) % (RECORD_HEADER + frame):
        raise UserError(f"not a file of reports of {settings.report_bytes} bytes", where=reports)
    records = content.reshape(-1, RECORD_HEADER + frame)
    header_fields = records[:, :RECORD_HEADER].copy().view("<u4")
    if len(header_fields) and (header_fields[:, 2] != frame).any():
        raise UserError(f"not all reports have {settings.report_bytes} bytes", where=reports)
    times = header_fields[:, 0].astype(np.int64) * 10**9 + header_fields[:, 1]
    bodies = records[:, RECORD_HEADER + ROCE_HEADERS :]
    probe = (field(bodies, TRIGGER, ">u2") & PROBE) != 0
    valid = field(bodies, VALID, ">u2")
    values = {name: np.where(valid & bit, field(bodies, offset, ">u8"), 0) for name, (offset, bit) in TIMES.items()}
    sketch = settings.sketch
    too_large = may_collide(bodies, rows=sketch.rows, cells=sketch.cells, slots=settings.slots)
    return pa.table(
        {
            **{"place": pa.array(np.arange(len(times))), "ts_ns": pa.array(times), "probe": pa.array(probe)},
            **{
                name: pa.array(values[name].astype(np.int64), mask=(valid & bit) == 0)
                for name, (_, bit) in TIMES.items()
            },
            "shared": pa.array(too_large),
        }
    )


def field(bodies, offset: int, kind: str):
    """Return a field of every report, in the machine's byte order."""
    import numpy as np  # noqa: PLC0415 (only here)

    size = np.dtype(kind).itemsize
    return bodies[:, offset : offset + size].copy().view(kind)[:, 0].astype(np.dtype(kind).newbyteorder("="))
