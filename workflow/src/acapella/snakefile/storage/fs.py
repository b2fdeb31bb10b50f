"""Determines the state of files on a mounted share, fs:PATH, which Snakemake's storage plugin fs copies with rsync.

Files have no ETag. The size and the modification time identify a version, as in the ETags of web servers.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from acapella.campaign.layout import SHARE, version_on_share
from acapella_core.errors import UserError

from .. import snakemake_internals
from .object_state import ObjectState


class SharedFiles:
    """The files of the storage plugin fs. ``register``: registers a plugin with Snakemake, and returns its provider.

    ``fault_of``: function that returns the reason why a file is unreadable, or None. Raises UserError without rsync.
    """

    def __init__(self, register: Callable, fault_of: Callable[[Path], str | None]):
        if shutil.which("rsync") is None:
            raise UserError("Snakemake's storage plugin fs needs rsync", fix="apt-get install rsync")
        self._fault_of = fault_of
        snakemake_internals.make_copies_writable(register("fs"))

    @staticmethod
    def plugin_query(query: str) -> str:
        """Return the name that the plugin uses for a file: its path."""
        return query.removeprefix(SHARE)

    def state(self, query: str) -> ObjectState:
        """Return the state of a file."""
        path = Path(self.plugin_query(query))
        if fault := self._fault_of(path):
            return ObjectState(fault=fault)
        try:
            found, etag = path.stat(), version_on_share(path)
        except OSError as error:
            return ObjectState(fault=f"cannot read: {error.strerror}")
        return ObjectState(etag, bytes=found.st_size, modified_s=found.st_mtime_ns // 10**9)
