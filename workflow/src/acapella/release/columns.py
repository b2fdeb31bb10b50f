"""Determines the columns that a release may contain, which schemas/released_columns.yaml lists."""

import functools
import json
from pathlib import Path

import yaml

from acapella_core import schemas
from acapella_core.files import atomic_path

COLUMN_LIST = "released_columns.yaml"
PRIVATE_UNITS = {"address", "pcap-filter"}  # filter expressions may contain addresses
IDENTIFYING_COLUMNS = {
    "flow_id",
    "peer_flow_id",
    "community_id",
    "tunnels",
}  # columns with hashes of addresses, or tunnel identifiers
METADATA = "metadata"  # entry of the list for the metadata of acaps and flow tables, instead of the name of a table


@functools.cache
def published_columns(table: str) -> tuple[str, ...]:
    """Return the published columns of a table; empty if the table is not listed."""
    columns_by_table = yaml.safe_load((schemas.root() / COLUMN_LIST).read_text(encoding="utf-8"))
    return tuple(columns_by_table.get(table, ()))


def why_private(table: str) -> str:
    """Return the reason why a table cannot be copied to a release; empty if its published columns can be copied."""
    columns = {column["name"]: column["unit"] for column in schemas.table(table)["columns"]}
    private = [name for name, unit in columns.items() if unit in PRIVATE_UNITS or name in IDENTIFYING_COLUMNS]
    if columns.get("flow") == "row":  # flows are numbered in the order of addresses
        private.append("flow")
    if private:
        names = f"column{'s' * (len(private) > 1)} {', '.join(private)}"
        return f"contains addresses, filters, or values that depend on them: {names}"
    if table == "paper_numbers":
        return "acapella campaign papers computes it from other tables"
    missing = sorted(set(schemas.table(table)["key"]) - set(published_columns(table)))
    return f"columns of its key are not published: {', '.join(missing)}" if missing else ""


def drop_private(path: Path, table: str) -> None:
    """Rewrite an acap or flow table without private columns and metadata. Keep the file if it has none."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    from acapella.digest.acap_files import KEY, metadata_of, positions_of, text_of_positions  # noqa: PLC0415

    names, metadata, positions = pq.read_schema(path).names, metadata_of(path), positions_of(path)
    published = [name for name in names if name in published_columns(table)]
    if published == names and set(metadata) <= set(published_columns(METADATA)):
        return
    public_metadata = json.dumps(
        {key: value for key, value in metadata.items() if key in published_columns(METADATA)}, sort_keys=True
    )
    with pq.ParquetFile(path) as source, atomic_path(path) as temporary:
        schema = source.schema_arrow.empty_table().select(published).schema.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd") as sink:
            for number in range(source.num_row_groups):
                rows = source.read_row_group(number, columns=published).replace_schema_metadata(None)
                sink.write_table(rows)
            # positions in the anonymized capture, which is published
            sink.add_key_value_metadata({KEY: public_metadata} | text_of_positions(positions))
