"""Creates the report's section on papers: the printed numbers and the campaign's numbers."""

from acapella.figures.source import Source

from .tables import table

TITLES = {
    "patchwork": "Patchwork (IMC 2025)",
    "choir": "CHOIR (SC 2025 workshops)",
    "osnt": "OSNT (IEEE Network 2014)",
    "sliced_wan": "Sliced WANs (SBRC 2024)",
}
COLUMNS = [("Paper", False), ("Where", False), ("Quantity", False), ("Printed", True), ("This campaign", True)]
COLUMNS += [("Verdict", False), ("Why they differ", False)]


def tables(source: Source) -> list[dict]:
    """Return the table of printed numbers that the campaign also measured; [] if it was not compared with papers."""
    if not source.campaign.table("paper_numbers", "parquet").is_file():
        return []
    rows = sorted(source.rows("paper_numbers"), key=lambda row: row["row"])
    rows = [row for row in rows if row["paper"] in TITLES]  # the section on flow reports has those of the P4/RDMA paper
    if not rows:
        return []
    measured = [row for row in rows if row["verdict"] != "not measured"]
    cells = [
        [
            *(TITLES[row["paper"]], row["where"], row["what"], row["printed"], row["ours"] or ""),
            *(row["verdict"], row["reason"]),
        ]
        for row in measured
    ]
    note = f"{len(measured)} of {len(rows)} printed numbers; the CSV file contains the others, with the reason."
    return [table("paper_numbers", "Printed numbers and those of this campaign", note, COLUMNS, cells)]
