"""Facts about a capture, read from its bytes by the native core: frames, clock, snap length.

    python -m acapella_capture.scan CAPTURE

prints them as JSON, for `scan_apart`.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from acapella_core.errors import UserError


@dataclass(frozen=True)
class Facts:
    """Facts about a whole capture; None if unknown. `fault` is what could not be read."""

    frames: int | None = None
    clock_resolution_ns: int | None = None
    snaplen: int | None = None
    fault: str | None = None
    whole_bytes: int | None = None  # end of the last whole record of a truncated capture


def scan(path: Path, limits=None) -> Facts:
    """Read a capture to its end, within the `limits` of acapella_core.decompression.

    Raises UserError if the core was not built.
    """
    try:
        from acapella_core import _native  # noqa: PLC0415 - so that the other commands run without it
    except ImportError as error:
        raise UserError(f"the native core is missing: {error}", fix="make setup") from error
    try:
        found = _native.scan_capture(str(path), limits or _native.DecompressionLimits())
    except _native.InputError as error:
        return Facts(fault=str(error))
    cut = f"{found['file_issue']} at byte {found['file_issue_offset']}" if found["file_issue"] else None
    if found["file_unread_bytes"]:
        cut += f", {found['file_unread_bytes']} bytes not read"
    return Facts(found["frames"], found["clock_resolution_ns"], found["snaplen"], cut, found["file_issue_offset"])


def scan_apart(path: Path) -> Facts:
    """Run `scan` in a separate confined process, for a process that needs the network itself.

    Raises UserError if it fails.
    """
    command = [sys.executable, "-m", __name__, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"cannot be scanned: {why}", where=path)
    return Facts(**json.loads(done.stdout))


def main() -> None:
    """Print the facts of one capture."""
    from acapella_core.confinement import confine_self  # noqa: PLC0415 - needs the native core

    confine_self()
    print(json.dumps(asdict(scan(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
