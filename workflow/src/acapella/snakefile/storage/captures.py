"""Handles captures in storage: inputs of rules that a storage plugin of Snakemake fetches, and the state of objects.

Snakemake fetches an object before the first job that reads it, and deletes the copy after the last one. The state of an
object is requested from the storage once per process: why it cannot be fetched, its ETag, and its SHA-256. An ETag
identifies a version of an object: a new ETag causes a rerun.

The scheme of an object is the name of its plugin. Each plugin has a module, which contains what differs.
"""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from .. import snakemake_internals
from ..exit import exit_on_user_error
from .fs import SharedFiles
from .object_state import ObjectState
from .s3 import S3Objects

PARALLEL = 16  # requests at the same time


class CaptureStorage:
    """The objects in storage that the sample sheet names.

    ``registry``: `storage` of the Snakefile; ``settings``: value of the config key `capture_storage`; ``fault_of``:
    function that returns the reason why a file is unreadable, or None. Nothing is loaded or requested before the first
    object.
    """

    def __init__(self, registry, settings: Mapping[str, str | int | None], fault_of: Callable[[Path], str | None]):
        self._registry = registry
        self._plugins = {
            "s3": partial(S3Objects, settings=settings),
            "fs": partial(SharedFiles, fault_of=fault_of),
        }
        self._loaded: dict[str, Any] = {}
        self._states: dict[str, ObjectState] = {}
        self._inputs: dict[str, Any] = {}
        self._queries: dict[str, str] = {}

    def _load(self, name: str):
        """Register a plugin if necessary, and return it. Raises UserError if it is missing, or for a wrong setting."""
        if name not in self._loaded:
            if importlib.util.find_spec(f"snakemake_storage_plugin_{name}") is None:
                raise UserError(
                    f"captures in storage need Snakemake's storage plugin {name}", fix="run make setup-storage"
                )
            register = partial(snakemake_internals.register_storage, self._registry)
            self._loaded[name] = self._plugins[name](register)
        return self._loaded[name]

    def input_of(self, query: str):
        """Return an object as an input of rules; as text, it is the path of the copy. An error ends Snakemake."""
        if query not in self._inputs:
            name = plugin_of(query)
            with exit_on_user_error("error: "):
                plugin = self._load(name)  # the settings are registered before the first object
            fetched = self._inputs[query] = getattr(self._registry, name)(plugin.plugin_query(query))
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
            plugins = [self._load(plugin_of(query)) for query in unknown]
            states = threads.map(lambda plugin, query: plugin.state(query), plugins, unknown)
            self._states |= dict(zip(unknown, states, strict=True))


def plugin_of(query: str) -> str:
    """Return the name of the plugin that fetches an object."""
    return query.partition(":")[0]
