"""The format of acaps and flow tables, and the record of a digest on a node. Imports neither pyarrow nor numpy."""

from acapella import __version__
from acapella.common import vendors

# Key `acap_format` in the metadata of both files; files without it have format 1. Format 2 added tunnel identifiers to
# the keys of flows, format 3 added ip_id to frames.
FORMAT = 3


def node_digest_record() -> tuple[dict, dict[str, bytes]]:
    """Return the record that a digest on a node contains, and the vendor lists that it needs, by file name.

    `acapella collect` calls this function through the entry point `acapella.node_digest`.
    """
    metadata, lists = vendors.lists()
    return {"version": __version__, "acap_format": FORMAT, "vendors": metadata}, lists
