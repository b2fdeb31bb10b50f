"""Import jsonschema, without the part of it that is slow to import."""

import importlib
import sys
from types import ModuleType

# jsonschema imports this grammar of IRIs, which builds a parser for about a second, if it is installed: FABRIC's client
# installs it. Only jsonschema's check of the formats `iri` and `iri-reference` needs it, which no schema here uses.
IRI_GRAMMAR = "rfc3987_syntax"


def load_jsonschema() -> ModuleType:
    """Return the module jsonschema. Call this before importing a package that imports jsonschema itself (Altair)."""
    if "jsonschema" in sys.modules or IRI_GRAMMAR in sys.modules:
        return importlib.import_module("jsonschema")
    sys.modules[IRI_GRAMMAR] = None  # an import of it fails
    try:
        return importlib.import_module("jsonschema")
    finally:
        del sys.modules[IRI_GRAMMAR]
