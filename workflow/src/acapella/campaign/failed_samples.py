"""Records of the samples of a campaign that failed: quarantine/<sample>.json and quarantine/<sample>.log.

The workflow writes these files (`acapella.snakefile.quarantine`). The report reads them if the tables omit the samples.
"""

import json
from contextlib import suppress
from pathlib import Path

from acapella_core.names import SAMPLE

from .batches import STAGES
from .layout import Campaign

MAX_BYTES = 1 << 20  # maximum size of a record


KIND = "quarantine"


def record_of(campaign: Path, sample: str, suffix: str = ".json") -> Path:
    """Return the path of the record of a failed sample, or of its log."""
    return campaign / Campaign.at(campaign).name(KIND, sample, suffix)


def read_records(campaign: Path) -> dict[str, dict]:
    """Return the records of failed samples by name: rule, exit_code, reason, runs, capture, settings.

    Omits files that are unreadable, too large, or not records: a results directory may come from a third party.
    """
    records = {}
    for path in sorted(Campaign.at(campaign).files(KIND, ".json"), key=lambda path: path.name):
        with suppress(OSError, ValueError, RecursionError):
            record = json.loads(read_text(path))
            if SAMPLE.fullmatch(path.stem) and is_record(record):
                records[path.stem] = record
    return records


def read_text(path: Path) -> str:
    """Return the text of a regular file. Raises OSError, or ValueError if it is not regular or exceeds MAX_BYTES."""
    if not path.is_file():  # the open of a named pipe would block
        raise ValueError("not a regular file")
    with path.open(encoding="utf-8") as stream:
        text = stream.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    return text


def is_record(content: object) -> bool:
    """Return whether the content of a file is a record whose values have the types that readers expect."""
    if not isinstance(content, dict):
        return False
    rule, code, runs = (content.get(key) for key in ("rule", "exit_code", "runs"))
    return (
        isinstance(rule, str)
        and rule in STAGES
        and isinstance(content.get("reason"), str)
        and (code is None or type(code) is int)
        and type(runs) is int
    )
