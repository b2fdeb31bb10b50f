"""Records of the samples of a campaign that failed: quarantine/<sample>.json and quarantine/<sample>.log.

The workflow writes them (`acapella.snakefile.quarantine`). The report of a campaign without these samples reads them.
"""

import json
from contextlib import suppress
from pathlib import Path


def directory_of(campaign: Path) -> Path:
    """Return the directory with the records and logs of failed samples."""
    return campaign / "quarantine"


def read_records(campaign: Path) -> dict[str, dict]:
    """Return the records of failed samples by name: rule, exit_code, reason, runs, capture. Omits unreadable ones."""
    records = {}
    for path in sorted(directory_of(campaign).glob("*.json")):
        with suppress(OSError, ValueError):
            records[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return records
