"""Determines the dissection engine of a campaign if tshark is not installed, before resources of a testbed are used."""

import copy

from acapella.common import tshark
from acapella_core import names
from acapella_core.errors import UserError

NATIVE = "native"
MISSING = "tshark is not installed, or cannot start"


def with_engine(config: dict, *, prints: bool) -> dict:
    """Return a config, with engine native if the configured engine cannot run where captures are digested.

    Nodes have no tshark. This machine uses a different engine only if `digest.without_tshark` is native. ``prints``:
    report the change in one line.
    """
    engine = config["digest"]["engine"]
    if engine == NATIVE:
        return config
    if config["collect"]["digest_on"] == "node":
        reason, key = "nodes have no tshark", "collect.digest_on"
    elif config["digest"]["without_tshark"] == NATIVE and not runs(engine):
        reason, key = MISSING, "digest.without_tshark"
    else:
        return config
    if prints:
        names.report(f"acapella: warning: {reason}; digest uses engine {NATIVE} instead of {engine} ({key})")
    changed = copy.deepcopy(config)
    changed["digest"]["engine"] = NATIVE
    return changed


def check_engine(engine: str) -> None:
    """Raise UserError if an engine requires tshark, which is missing."""
    if not runs(engine):
        fix = f"install tshark, or set digest.without_tshark: {NATIVE}"
        raise UserError(f"{engine}: {MISSING}", where="digest.engine", fix=fix)


def runs(engine: str) -> bool:
    """Return whether this machine can run an engine."""
    if engine == NATIVE:
        return True
    try:
        tshark.find()
    except UserError:
        return False
    return True
