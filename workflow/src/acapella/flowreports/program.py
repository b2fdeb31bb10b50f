"""A capture through the flow-statistics program: reports as frames, and what became of every frame."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import decompression
from acapella_core import confinement
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from .settings import PROBE, Settings

ROOT = Path(__file__).resolve().parents[4]
SPEC = ROOT / "p4" / "spec" / "flowstats.spec"
LOADER = "acapella-p4-run"
PCAP_HEADER, RECORD_HEADER = 24, 16  # bytes
ROCE_HEADERS, ICRC = 14 + 20 + 8 + 12 + 16, 4
TRIGGER, VALID = 4, 6  # their places in a report of format 2 (schemas/report_formats.tsv)
TIMES = {"packet_ns": (176, 256), "iat_ns": (128, 8)}  # place of the field, its bit in `valid`


@dataclass(frozen=True)
class Run:
    """The reports of a run as a pcap, and the loader's statistics."""

    reports: Path
    statistics: dict

    @property
    def sent(self) -> int:
        """Reports that the program sent."""
        return self.statistics["reports"]


def loader() -> str:
    """Where the loader is. Raises UserError."""
    beside = Path(sys.executable).parent / LOADER
    found = str(beside) if beside.is_file() else shutil.which(LOADER)
    if found is None:
        raise UserError(f"{LOADER} is not installed", fix="install libdpdk-dev and run make setup")
    return found


def missing() -> str | None:
    """Why the program cannot run here; None where it can."""
    try:
        loader()
    except UserError as error:
        return str(error)
    return None if SPEC.is_file() else f"no {SPEC.name} in {SPEC.parent}"


def reasons() -> dict[int, str]:
    """Names of the reasons for which a frame makes no report, by number, from the .spec's sidecar."""
    sidecar = SPEC.with_suffix(".json")
    told = json.loads(sidecar.read_text(encoding="utf-8")).get("reasons", {}) if sidecar.is_file() else {}
    return {int(number): name for number, name in told.items()}


def run(
    captures: Sequence[Path], directory: Path, settings: Settings, whole: Sequence[int | None] = (), limits=None
) -> Run:
    """Run the program over captures, merged by their times; control.txt, reports.pcap, program.json go to
    ``directory``.

    ``whole``: the decompressed bytes of each capture that count, None for all (default: all of all); ``limits``: on
    decompression. Raises UserError with the loader's own line if it fails, or if its counts do not add up.
    """
    control, reports, told = (directory / name for name in ("control.txt", "reports.pcap", "program.json"))
    atomic_text(control, settings.control(reasons()))
    command = [loader(), "--parent", str(os.getpid()), "--spec", str(SPEC), "--control", str(control)]
    command += ["--out", str(reports), "--stats", str(told)]
    with decompression.streamed(captures, whole, limits) as streams:
        code, said = end_of([*command, *streams.arguments], (reports, told), streams.descriptors)
    if code != 0:
        raise UserError(" ".join(said.split()) or f"{LOADER} ended with {code}")
    statistics = json.loads(told.read_text(encoding="utf-8"))
    check(statistics, captures[0])
    return Run(reports, statistics)


def end_of(command: list[str], made: Iterable[Path], descriptors: Sequence[int] = ()) -> tuple[int, str]:
    """Return the loader's exit code and its messages; it inherits ``descriptors``.

    If this command is interrupted, the loader is terminated, and the files in ``made`` are removed.
    """
    nothing = subprocess.DEVNULL
    streams = {"stdin": nothing, "stdout": nothing, "stderr": subprocess.PIPE}
    process = confinement.start(
        command,
        sorted({path.parent for path in made}),
        **streams,
        text=True,
        pass_fds=descriptors,
    )
    try:
        _, said = process.communicate()
    except BaseException:
        process.terminate()
        try:
            process.communicate()
        finally:  # also where we are told once more
            process.kill()
            process.wait()
            for path in made:  # what it had until then, under the names of the whole
                path.unlink(missing_ok=True)
                path.with_name(f"{path.name}.part").unlink(missing_ok=True)
        raise
    return process.returncode, said


def check(statistics: dict, capture: Path) -> None:
    """Raise UserError where a frame or a probe is in no count."""
    given = statistics["in"] + statistics["probes"]
    found = statistics["out"] + sum(statistics["sunk"].values()) + sum(statistics["dropped"].values())
    if given != found or statistics["reports"] != statistics["out"]:
        raise UserError(f"{given} frames went in, {found} are accounted for", where=capture)


def stamps(reports: Path, settings: Settings):
    """Return an Arrow table of (place, ts_ns, probe, packet_ns, iat_ns, shared), a row per report, in their order.

    packet_ns is the time of the flow's last packet, iat_ns the inter-arrival time before it; null if the report has
    none. shared: the report's counts may be too large (sharing.shared). All reports are equally long, so that the file
    is an array of records. Raises UserError.
    """
    import numpy as np  # noqa: PLC0415 (only here)
    import pyarrow as pa  # noqa: PLC0415

    from .sharing import shared  # noqa: PLC0415 (NumPy)

    frame = ROCE_HEADERS + settings.report_bytes + ICRC
    content = np.fromfile(reports, np.uint8, offset=PCAP_HEADER)
    if len(content) % (RECORD_HEADER + frame):
        raise UserError(f"not a file of reports of {settings.report_bytes} bytes", where=reports)
    records = content.reshape(-1, RECORD_HEADER + frame)
    words = records[:, :RECORD_HEADER].copy().view("<u4")
    if len(words) and (words[:, 2] != frame).any():
        raise UserError(f"not all reports have {settings.report_bytes} bytes", where=reports)
    times = words[:, 0].astype(np.int64) * 10**9 + words[:, 1]
    bodies = records[:, RECORD_HEADER + ROCE_HEADERS :]
    probe = (words_of(bodies, TRIGGER, ">u2") & PROBE) != 0
    valid = words_of(bodies, VALID, ">u2")
    known = {name: np.where(valid & bit, words_of(bodies, at, ">u8"), 0) for name, (at, bit) in TIMES.items()}
    sketch = settings.sketch
    too_large = shared(bodies, rows=sketch.rows, cells=sketch.cells, slots=settings.slots)
    return pa.table(
        {
            **{"place": pa.array(np.arange(len(times))), "ts_ns": pa.array(times), "probe": pa.array(probe)},
            **{
                name: pa.array(known[name].astype(np.int64), mask=(valid & bit) == 0)
                for name, (_, bit) in TIMES.items()
            },
            "shared": pa.array(too_large),
        }
    )


def words_of(bodies, at: int, kind: str):
    """Return a field of every report, in the machine's byte order."""
    import numpy as np  # noqa: PLC0415 (only here)

    size = np.dtype(kind).itemsize
    return bodies[:, at : at + size].copy().view(kind)[:, 0].astype(np.dtype(kind).newbyteorder("="))
