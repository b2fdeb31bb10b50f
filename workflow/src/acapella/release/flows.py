"""Writes tables of flows with the pseudonyms of the released captures.

Flows are numbered in the order of the pseudonyms. The order of the original addresses would reveal which of two
addresses is lower. Because pseudonyms keep prefixes, this is the original value of the first bit that differs.
"""

from pathlib import Path

from acapella.campaign.layout import Campaign
from acapella.common import queries, tables
from acapella_core import anonymize

from .columns import published_columns

FLOWS = "flowreport_flows"
TABLES_BY_FLOW = ("flowreport_windows",)  # tables that identify flows by the numbers of FLOWS
TABLES = (FLOWS, *TABLES_BY_FLOW)


def write(campaign: Campaign, directory: Path, key: bytes) -> None:
    """Write TABLES to ``directory`` as CSV and Parquet."""
    with queries.one_line(campaign.directory):
        con = queries.connect()
        for name in TABLES:
            con.read_parquet(str(campaign.table(name, "parquet"))).create_view(f"true_{name}")
        add_pseudonyms(con, key)
        con.execute(f"create temp table renamed as {queries.text('release', 'renamed_flows')}")
        for name in TABLES:
            relation = con.sql(queries.text("release", name))
            tables.write(
                relation,
                name,
                lambda suffix, name=name: directory / f"{name}.{suffix}",
                columns=published_columns(name),
            )


def add_pseudonyms(con, key: bytes) -> None:
    """Create the table `pseudonyms` (address, pseudonym) with all addresses of the original flows."""
    ends = con.sql(f"select src from true_{FLOWS} union select dst from true_{FLOWS}").fetchall()
    addresses = [address for (address,) in ends]
    con.execute("create temp table pseudonyms (address varchar, pseudonym varchar)")
    if addresses:
        pairs = list(zip(addresses, anonymize.pseudonyms_of(addresses, key), strict=True))
        queries.insert(con, "pseudonyms", pairs)
