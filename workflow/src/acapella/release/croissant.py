"""Writes croissant.json of a release: its files, and the columns of its tables, in Croissant 1.0 (JSON-LD, MLCommons).

http://mlcommons.org/croissant/1.0. The file contains neither a creation time, nor user or host names.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from acapella import __version__
from acapella_core import schemas
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, sha256_of

from .column_differences import table_of
from .reproducible import SHEET

FILE = "croissant.json"
NAME = "Headers of network traffic, anonymized"
STUDIES = "Studies of a network testbed"  # name of a release without captures
NO_LICENSE = "No license was specified: ask the owner of the data before you use them."
DIGESTS = {"acap": "frames", "flows": "flows"}
TEXT, INTEGER, FLOAT, BOOLEAN = "sc:Text", "sc:Integer", "sc:Float", "sc:Boolean"
FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/x-parquet",
    ".pcap": "application/vnd.tcpdump.pcap",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".yaml": "application/yaml",
}
OTHER_FORMAT = "text/plain"
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "equivalentProperty": "cr:equivalentProperty",
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def write(release: Path, license_text: str | None, published: str, mode: int = 0o600) -> None:
    """Write croissant.json for the files of a release in `described_files`.

    ``license_text``: URL or name of the license; ``published``: date, as YYYY-MM-DD.
    """
    atomic_text(release / FILE, text(release, license_text, published), mode)


def write_again(release: Path, mode: int) -> None:
    """Rewrite croissant.json after files were added to the release."""
    content = read(release)
    write(release, content["license"], content["datePublished"], mode)


def read(release: Path) -> Mapping:
    """Return the license and the date of publication in croissant.json. Raises UserError if one is missing."""
    path = release / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: str(content[key]) for key in ("license", "datePublished")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"cannot read: {error}", where=path, fix="create the release again") from error


def name_of(release: Path) -> str:
    """Return the name of a data set, which depends on whether the release has a sheet of captures."""
    return NAME if (release / SHEET).is_file() else STUDIES


def content_of(release: Path) -> str:
    """Return a description of the contents of a release."""
    if name_of(release) == NAME:
        return "Headers, flows and traffic statistics of network captures"
    return "Measured values, and tables and figures that show them"


def text(release: Path, license_text: str | None, published: str) -> str:
    """Return the content of croissant.json."""
    content = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name_of(release),
        "description": f"{content_of(release)}; README.md describes the files. Created by Acapella {__version__}.",
        "license": license_text or NO_LICENSE,
        "datePublished": published,
        "version": "1.0.0",
        "distribution": [*file_objects(release), *file_sets(release)],
        "recordSet": [*record_sets(release)],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def fixed_lines() -> set[str]:
    """Return lines of croissant.json that are the same for any campaign, without indentation and commas.

    They are the context, types and formats, and the descriptions of columns.
    """
    tables = sorted(path.stem for path in (schemas.root() / "tables").glob("*.yaml"))
    columns = [column for table in tables for column in schemas.table(table)["columns"]]
    values = {
        "@type": ("sc:Dataset", "cr:FileObject", "cr:FileSet", "cr:RecordSet", "cr:Field"),
        "dataType": (TEXT, INTEGER, FLOAT, BOOLEAN),
        "encodingFormat": (*FORMATS.values(), OTHER_FORMAT),
        "description": map(description, columns),
    }
    lines = [f'"{key}": {json.dumps(value, ensure_ascii=False)}' for key in values for value in values[key]]
    lines += json.dumps(CONTEXT, indent=2).splitlines()
    return {without_layout(line) for line in lines}


def without_layout(line: str) -> str:
    """Return a line of a JSON file without indentation and comma."""
    return line.strip().rstrip(",")


def description(column: Mapping) -> str:
    """Return the description of a column of a table."""
    return f"{column['about']} (unit: {column['unit']})"


def described_files(release: Path) -> list[str]:
    """Return the files of a release that its metadata describe, relative to its directory.

    The catalog is omitted: DuckDB may arrange the same rows differently in the file.
    """
    files = (path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file())
    return sorted(set(files) - {FILE, "ro-crate-metadata.json", "SHA256SUMS", "catalog.duckdb"})


def format_of(name: str) -> str:
    """Return the media type of a file of a release."""
    return FORMATS.get(Path(name).suffix, OTHER_FORMAT)


def file_objects(release: Path) -> Iterator[dict]:
    """Yield the description of each file."""
    for name in described_files(release):
        yield {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{(release / name).stat().st_size} B",
            "encodingFormat": format_of(name),
            "sha256": sha256_of(release / name),
        }


def file_sets(release: Path) -> Iterator[dict]:
    """Yield the sets of files that are one table: acaps and flow tables."""
    for directory in DIGESTS:
        if (release / directory).is_dir():
            yield {
                "@type": "cr:FileSet",
                "@id": f"{directory}-files",
                "name": f"{directory}-files",
                "encodingFormat": FORMATS[".parquet"],
                "includes": f"{directory}/*.parquet",
            }


def record_sets(release: Path) -> Iterator[dict]:
    """Yield the columns of each table, with descriptions and units from its schema."""
    for directory, table in DIGESTS.items():
        first = min((release / directory).glob("*.parquet"), default=None)
        if first is not None:
            yield record_set(table, table, first, {"fileSet": {"@id": f"{directory}-files"}})
    for name in described_files(release):
        if name.startswith(("tables/", "results/tables/")) and name.endswith(".parquet"):
            identifier = name.removesuffix(".parquet").replace("/", "-")
            yield record_set(identifier, table_of(name), release / name, {"fileObject": {"@id": name}})


def record_set(identifier: str, table: str, path: Path, source: dict) -> dict:
    """Return the description of one table. ``path``: a file with its columns."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    schema = schemas.table(table)
    about = {column["name"]: column for column in schema["columns"]}
    fields, omitted = [], []
    for field in pq.read_schema(path):
        kind, repeated = data_type(field.type)
        if kind is None:
            omitted.append(field.name)
            continue
        column = about.get(field.name, {"about": field.name, "unit": "1"})
        fields.append(
            {
                "@type": "cr:Field",
                "@id": f"{identifier}/{field.name}",
                "name": f"{identifier}/{field.name}",
                "description": description(column),
                "dataType": kind,
                **({"repeated": True} if repeated else {}),
                "source": {**source, "extract": {"column": field.name}},
            }
        )
    return {
        "@type": "cr:RecordSet",
        "@id": identifier,
        "name": identifier,
        "description": schema["grain"] + omission_note(omitted),
        "field": fields,
    }


def omission_note(columns: list[str]) -> str:
    """Return a note about columns that are not described."""
    return f"; without columns that contain structures: {', '.join(columns)}" if columns else ""


def data_type(kind) -> tuple[str | None, bool]:
    """Return the Croissant type of an Arrow type (None for structures), and whether it is a list."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return data_type(kind.value_type)[0], True
    if pa.types.is_dictionary(kind):
        return data_type(kind.value_type)
    if pa.types.is_struct(kind):
        return None, False
    for is_kind, name in (
        (pa.types.is_integer, INTEGER),
        (pa.types.is_floating, FLOAT),
        (pa.types.is_boolean, BOOLEAN),
    ):
        if is_kind(kind):
            return name, False
    return TEXT, False


def date_of_last_frame(acaps: list[Path]) -> str:
    """Return the date (UTC) of the last frame with a time; 1970-01-01 if there is none."""
    from acapella.digest.acap_files import metadata_of  # noqa: PLC0415

    last = max((metadata_of(path).get("last_ns") or 0 for path in acaps), default=0)
    return datetime.datetime.fromtimestamp(last // 10**9, datetime.UTC).date().isoformat()
