"""Captures in storage that a sample sheet names instead of files: s3://BUCKET/KEY, or fs:PATH on a mounted share.

Snakemake fetches an object for the jobs that read it, and deletes the copy.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|fs:")
# The form of an object's name by scheme, as a pattern and in words. Characters that a URL, Snakemake or a glob
# interprets are rejected, and so are credentials in front of an @.
FORMS = {
    "s3": (
        re.compile(r"s3://[^/@?#*\[\]{}]+/(?!/)[^?#*\[\]{}]*[^/?#*\[\]{}]"),
        "s3://BUCKET/KEY, without // and .. and any of ? # * [ ] { } in the key",
    ),
    "fs": (re.compile(r"fs:(/[^/?*\[\]{}]+)+"), "fs:PATH, an absolute path without // and .. and any of ? * [ ] { }"),
}


@dataclass(frozen=True)
class StoredCapture:
    """A capture in storage: the path of its fetched copy, and the storage's metadata of the object.

    `fault`: why it cannot be fetched; `sha256`: None if the storage has no SHA-256 of the whole object; `modified_s`:
    its modification time in seconds since 1970, if the copy must have the same.
    """

    file: str | None = None
    etag: str | None = None
    sha256: str | None = None
    bytes: int | None = None
    modified_s: int | None = None
    fault: str | None = None


def query_of(fields: dict[str, str]) -> str | None:
    """Return the object in storage that a line names; None if it names files."""
    return fields["file"] if SCHEME.match(fields["file"]) else None


def fault_of_query(query: str) -> str | None:
    """Return why the name of an object in storage is invalid, without credentials; None if it is valid."""
    scheme = query.partition(":")[0]
    if scheme not in FORMS:
        return f"{scheme}://: only s3://BUCKET/KEY and fs:PATH are supported; mount other storage, and use paths"
    if "@" in query.removeprefix("s3://").partition("/")[0]:
        return "s3://...@: credentials do not belong in the sheet; set AWS_ACCESS_KEY_ID and so on"
    pattern, form = FORMS[scheme]
    if not pattern.fullmatch(query) or ".." in query.split("/") or "//" in query.removeprefix("s3://"):
        return f"{query}: not {form}"
    return None


def path_of_query(query: str) -> Path:
    """Return a path for the name of a sample: that of a file on a share, or a relative one that ends with the key."""
    return Path(query.removeprefix("fs:").replace("://", "/", 1))


def manifest_keys(query: str | None, stored: StoredCapture | None) -> dict[str, Any]:
    """Return the key `storage` of the manifest of an object in storage."""
    return {"storage": {"query": query, "etag": stored.etag}} if query and stored else {}


def check_copy(query: str | None, sha256: str, stored: StoredCapture | None) -> None:
    """Raise UserError if the fetched copy, which has this SHA-256, is not the version of the object in storage.

    Snakemake does not fetch an object again if a copy from an earlier run has a later modification time.
    """
    if stored is None:
        return
    if stored.sha256 not in (None, sha256):
        raise UserError(
            "the fetched copy does not have the SHA-256 of the object", where=query, fix="run snakemake again"
        )
    if stored.file and stored.modified_s is not None:
        found = Path(stored.file).stat()
        if (found.st_size, found.st_mtime_ns // 10**9) != (stored.bytes, stored.modified_s):
            raise UserError(
                f"not a copy of the current {query}", where=stored.file, fix="delete it, and run snakemake again"
            )
