"""Community IDs computed by the reference implementation (PyPI communityid)."""

import communityid

PROTOCOLS_WITH_ID = {6, 17, 132}  # TCP, UDP, SCTP


def reference(row: dict) -> str | None:
    """Return the Community ID of a row of schemas/tables/flows.yaml; None for flows that have none."""
    if row["ip_proto"] not in PROTOCOLS_WITH_ID or row["src_port"] is None:
        return None
    endpoints = (row["src"], row["dst"], row["src_port"], row["dst_port"])
    return communityid.CommunityID(seed=0).calc(communityid.FlowTuple(row["ip_proto"], *endpoints))
