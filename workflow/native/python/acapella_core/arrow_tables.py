"""Arrow schemas of the tables described in schemas/tables/."""

import re

import pyarrow as pa

from . import schemas

SCALARS = {
    "utf8": pa.string(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
}


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type for a schema's ``type``, such as ``list<struct<stack: utf8, frames: uint64>>``."""
    if text in SCALARS:
        return SCALARS[text]
    outer, inner = re.fullmatch(r"(\w+)<(.*)>", text).groups()
    if outer == "list":
        return pa.list_(arrow_type(inner))
    parts = re.split(r",\s*", inner)
    if outer == "dictionary":
        return pa.dictionary(*(arrow_type(part) for part in parts))
    if outer == "struct":
        return pa.struct([(name, arrow_type(kind)) for name, kind in (part.split(": ") for part in parts)])
    raise ValueError(f"unknown type in a schema: {text}")


def arrow_schema(table: str) -> pa.Schema:
    """Return names, types and nullability of a table's columns, in the order of its schema."""
    columns = schemas.table(table)["columns"]
    return pa.schema([pa.field(c["name"], arrow_type(c["type"]), nullable=c["null"] != "never") for c in columns])
