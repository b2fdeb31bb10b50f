"""Send the trials of a testbed with the program of `acapella replay`, and store their departures."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import atomic_path, sha256_of

from ...replay import local
from ...replay.departures import Origin, convert
from ...replay.ports import ProgramSettings
from ...replay.program import ReplayProgram, executable
from ...scan import scan_apart
from .processes import SCRATCH, SPOOL, environment, in_namespace

INTERFACE = "eth0"
RECORDING = "replayed.pcap"  # in raw/
DEPARTURES = SPOOL / "departures"
PACING = "bursts"


class AcapellaSender:
    """The program on one host; it has the capture in memory between `open` and `close`."""

    name = "acapella replay"

    def __init__(self, node: str, mtu: int, capture: Path):
        self._node = node
        self._mtu = mtu
        self._capture = capture
        self._program: ReplayProgram | None = None
        self._stack = ExitStack()
        self._result: dict[str, Any] = {}

    @staticmethod
    def require() -> None:
        """Raise UserError if the program was not built."""
        executable()

    def open(self) -> None:
        """Start the program and load the capture. Raises UserError if that fails."""
        frames = scan_apart(self._capture).frames or 1
        settings = ProgramSettings((INTERFACE,), packets=frames, departures=frames, pace=PACING, mtu=self._mtu)
        argv = in_namespace(self._node, settings.argv())
        where = f"node {self._node}"
        program = ReplayProgram(argv, report=lambda line: None, where=where, env=environment(), cwd=SCRATCH)
        self._program = self._stack.enter_context(program)
        self._program.command("load", self._capture)

    def close(self) -> None:
        """End the program."""
        self._stack.close()
        self._program = None

    def send(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        self._result = local.replay(self._program, at_ns=0, loops=1, speed_ppm=1_000_000)
        dropped = {name: count for name, count in self._result.get("dropped", {}).items() if count}
        if dropped:
            reasons = ", ".join(f"{count} {name}" for name, count in dropped.items())
            message = f"{self.name} sent {self._result['sent']} packets and failed to send others: {reasons}"
            raise UserError(message, where=f"node {self._node}")
        return self._result["sent"]

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write recording and departures of the last trial to raw/; return manifest key `replay`. Raises UserError."""
        recording = raw / RECORDING
        checksum = sha256_of(self._capture)
        if not recording.is_file() or sha256_of(recording) != checksum:
            with atomic_path(recording) as temporary:
                temporary.write_bytes(self._capture.read_bytes())
        DEPARTURES.unlink(missing_ok=True)
        self._program.command("departures", DEPARTURES)
        departures = raw / f"{sample}.departures.parquet"
        convert(DEPARTURES, departures, Origin(recording_sha256=checksum, pacing=PACING))
        polling = self._result.get("polling", {})
        return {
            "sender": self.name,
            "recording": {"file": recording.name, "sha256": checksum},
            "departures": {"file": departures.name, "sha256": sha256_of(departures)},
            "sent_late": self._result.get("sent_late"),
            "late_ns": self._result.get("late_ns"),
            "preemptions": polling.get("preemptions"),
            "largest_gap_ns": polling.get("largest_gap_ns"),
        }
