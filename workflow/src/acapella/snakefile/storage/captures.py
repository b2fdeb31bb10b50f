"""Handles captures in object storage: inputs of rules that Snakemake's storage plugin s3 fetches, and the state of
objects.

Snakemake fetches an object before the first job that reads it, and deletes the copy after the last one. The state of an
object is requested from the storage once per process: why it cannot be fetched, its ETag, and its SHA-256.

An ETag identifies a version of an object: a new ETag causes a rerun. It is never used as a checksum of the bytes,
because the ETag of a multipart or encrypted object is not their MD5.
"""

import functools
import importlib.util
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from acapella_core.errors import UserError

from .. import snakemake_internals
from ..exit import exit_on_user_error
from .s3 import ObjectState, object_state, one_line

PLUGIN = "s3"
MODULE = "snakemake_storage_plugin_s3"
PARALLEL = 16  # requests at the same time


class CaptureStorage:
    """The objects in storage that the sample sheet names.

    ``registry``: `storage` of the Snakefile; ``settings``: value of the config key `capture_storage`. Nothing is loaded
    or requested before the first object.
    """

    def __init__(self, registry, settings: Mapping[str, str | None]):
        self._registry = registry
        self._settings = {key: value for key, value in settings.items() if value is not None}
        self._states: dict[str, ObjectState] = {}
        self._inputs: dict[str, Any] = {}
        self._queries: dict[str, str] = {}

    @functools.cached_property
    def _client(self):
        """Return the S3 client of the plugin. Raises UserError without the plugin, or for a wrong setting."""
        if importlib.util.find_spec(MODULE) is None:
            raise UserError("captures in storage need Snakemake's storage plugin s3", fix="run make setup-storage")
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - slow to import, and optional

        try:
            provider = snakemake_internals.register_storage(self._registry, PLUGIN, **self._settings)
            return provider.s3c.meta.client
        except (BotoCoreError, ValueError) as error:
            raise UserError(f"capture_storage: {one_line(error)}") from error

    def input_of(self, query: str):
        """Return an object as an input of rules; as text, it is the path of the copy. An error ends Snakemake."""
        if query not in self._inputs:
            with exit_on_user_error("error: "):
                _ = self._client  # the settings are registered before the first object
            fetched = self._inputs[query] = getattr(self._registry, PLUGIN)(query)
            self._queries[str(fetched)] = query
        return self._inputs[query]

    def query_of(self, capture: str) -> str | None:
        """Return the object of an input of rules; None if it is a file."""
        return self._queries.get(str(capture))

    def state(self, query: str) -> ObjectState:
        """Return the state of an object. An error that affects all objects ends Snakemake."""
        self.look_up([query])
        return self._states[query]

    def look_up(self, queries: Iterable[str]) -> None:
        """Request the states of objects that are still unknown, several at a time; for errors see `state`."""
        unknown = [query for query in dict.fromkeys(queries) if query not in self._states]
        if not unknown:
            return
        with exit_on_user_error("error: "), ThreadPoolExecutor(PARALLEL) as threads:
            client = self._client
            states = threads.map(lambda query: object_state(client, query), unknown)
            self._states |= dict(zip(unknown, states, strict=True))
