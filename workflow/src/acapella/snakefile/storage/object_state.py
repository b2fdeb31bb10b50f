"""Defines the state of an object in storage."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ObjectState:
    """The state of an object. ``fault``: why it cannot be fetched.

    ``etag``: identifies the version; ``sha256``: of the whole object, else None; ``modified_s``: time of modification
    in seconds since 1970, if fetched copies have the same.
    """

    etag: str | None = None
    sha256: str | None = None
    bytes: int | None = None
    modified_s: int | None = None
    fault: str | None = None
