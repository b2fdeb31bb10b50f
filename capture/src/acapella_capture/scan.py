"""Facts about a capture, read from its bytes by the native core: frames, clock, snap length.

    python -m acapella_capture.scan CAPTURE

prints them as JSON, for `scan_in_subprocess`.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from acapella_core.errors import UserError


@dataclass(frozen=True)
class Facts:
    """Facts about a whole capture; None if unknown. `fault`: reason why it could not be read to the end."""

    frames: int | None = None
    clock_resolution_ns: int | None = None
    snaplen: int | None = None
    fault: str | None = None
    whole_bytes: int | None = None  # end of the last whole record of a truncated capture
    longest_frame_bytes: int | None = None  # wire length


COUNT, NULLABLE_COUNT = (int,), (int, type(None))
METADATA_TYPES = {
    **dict.fromkeys(("frames", "file_unread_bytes"), COUNT),
    **dict.fromkeys(("clock_resolution_ns", "snaplen", "file_issue_offset", "longest_frame_bytes"), NULLABLE_COUNT),
    "file_issue": (str, type(None)),
    "file_issue_detail": (str,),
}
TRUNCATED = ("cut_header", "cut_record", "cut_compressed")  # `file_issue` of files that are only truncated


def scan(path: Path, limits=None) -> Facts:
    """Read a capture to its end, within the `limits` of acapella_core.decompression.

    Raises UserError if the core was not built.
    """
    try:
        from acapella_core import _native  # noqa: PLC0415 - so that the other commands run without it
    except ImportError as error:
        raise UserError(f"the native core is missing: {error}", fix="make setup") from error
    try:
        metadata = _native.scan_capture(str(path), limits or _native.DecompressionLimits())
    except _native.InputError as error:
        return Facts(fault=str(error).removeprefix(f"{path}: "))
    return facts_of(metadata)


def facts_of(metadata: dict) -> Facts:
    """Return the facts in metadata of a capture, from the core or from acapella-digest.

    Raises KeyError, TypeError or ValueError if a value is missing or invalid: a node's output is untrusted.
    """
    for key, kinds in METADATA_TYPES.items():
        value = metadata[key]
        if type(value) not in kinds:  # not isinstance: False is an int
            raise TypeError(f"{key} has the wrong type")
        if isinstance(value, int) and not 0 <= value < 1 << 63:
            raise ValueError(f"{key} is out of range")
        if isinstance(value, str):
            value.encode()  # JSON may contain lone surrogates, which UTF-8 cannot encode
    clock_resolution_ns, snaplen = metadata["clock_resolution_ns"], metadata["snaplen"]
    return Facts(
        metadata["frames"],
        clock_resolution_ns,
        snaplen,
        describe_fault(metadata),
        metadata["file_issue_offset"],
        metadata["longest_frame_bytes"],
    )


def describe_fault(metadata: dict) -> str | None:
    """Return a description of the fault at which reading of a capture ended; None if there is none."""
    if not metadata["file_issue"]:
        return None
    issue = metadata["file_issue"]
    kind = "decompression limit" if issue == "decompression_limit" else "truncated" if issue in TRUNCATED else "damaged"
    text = f"{kind} at byte {metadata['file_issue_offset']}"
    if metadata["file_issue_detail"]:
        text += f" ({metadata['file_issue_detail']})"
    unread = metadata["file_unread_bytes"]
    return f"{text}, {unread} bytes not read" if unread else text


def scan_in_subprocess(path: Path) -> Facts:
    """Run `scan` in a separate confined process, for a process that needs the network itself.

    Raises UserError if it fails.
    """
    command = [sys.executable, "-m", __name__, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        raise UserError(f"cannot be scanned: {reason}", where=path)
    return Facts(**json.loads(result.stdout))


def main() -> None:
    """Print the facts of one capture."""
    from acapella_core.confinement import confine_self  # noqa: PLC0415 - needs the native core

    confine_self()
    print(json.dumps(asdict(scan(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
