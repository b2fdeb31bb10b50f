"""Computes digests of the code of workflow stages, so that Snakemake reruns a stage if its code changes.

Snakemake compares the command line of a rule, but not the program that it runs. Therefore each rule has a parameter
`code.digest(STAGE, ...)`. It is the SHA-256 of the module of the stage, all modules of Acapella that it imports (found
by a regular expression, without running code), their data files, the columns of tables whose schemas they name, the
sources of the native core if it is used (including the sources of an outdated build), and the versions of third-party
packages that affect the output. Comments, docstrings and messages are ignored (`canonical`).

Schemas that modules do not name, such as those of published tables, are input files of rules.
"""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from acapella.campaign import analyze
from acapella.common import queries, tshark, vendors
from acapella.digest import installed
from acapella.flowreports import program
from acapella_core import _native, schemas
from acapella_core.errors import UserError

from . import canonical

ACAPELLA_PACKAGES = ("acapella", "acapella_core", "acapella_capture")
OUTPUT_PACKAGES = {"altair": "altair", "duckdb": "duckdb", "pyarrow": "pyarrow", "vl_convert": "vl-convert-python"}
NATIVE = "acapella_core._native"
SOURCES = "workflow/native/src"  # sources of the core, in the source tree
FIGURE_CODE = tuple(f"acapella.figures.{module}" for module in ("command", "compose", "save", "source"))
COMMENT = re.compile("#.*")
TABLE = re.compile(r"""\b(?:arrow_schema|schemas\.table)\(["'](\w+)["']\)""")
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<base>[\w.]*)[ \t]+)?import\b[ \t]*(?P<names>\([^)]*\)|.*)", re.MULTILINE
)


class Source(NamedTuple):
    """A source file: the name of its directory, its name, and its path. Files are sorted by both names."""

    directory: str
    name: str
    path: str


class Module(NamedTuple):
    """The contribution of a module to the digest.

    Its files, the packages of OUTPUT_PACKAGES and the modules of Acapella that it imports, and whether it uses the
    core.
    """

    files: tuple[Source, ...]
    foreign: frozenset[str]
    native: bool
    imported: frozenset[str]


@functools.cache
def digest(*stages: str) -> str:
    """Return the SHA-256, in hexadecimal, of the code of ``stages``, which are dotted names of modules or packages."""
    files, foreign, native = closure(*stages)
    total = hashlib.sha256()
    if native:
        files.update(source(path) for path in native_sources())
        total.update(outdated_core().encode())
    for _, name, path in sorted(files):
        total.update(f"{name}\0{checksum(path)}".encode())
    save_checksums()
    for table in sorted({table for _, _, path in files if path.endswith(".py") for table in tables_named(path)}):
        total.update(f"{table} {columns(table)}\n".encode())
    for package in sorted(foreign):
        total.update(f"{package} {version_of(package)}\n".encode())
    return total.hexdigest()


def figure_digest(figure: str) -> str:
    """Return the SHA-256, in hexadecimal, of the code that draws a figure: its module, and the common code."""
    return digest(f"acapella.figures.{figure}", *FIGURE_CODE)


@functools.cache
def sql_digest(*stages: str) -> str:
    """Return the SHA-256, in hexadecimal, of the queries in the directories workflow/sql/STAGE and below.

    A rule cannot have the queries as inputs, because an edited comment changes the modification time.
    """
    total = hashlib.sha256()
    for stage in stages:
        for path in sorted((queries.DIRECTORY / stage).rglob("*.sql")):
            total.update(f"{path.relative_to(queries.DIRECTORY)}\0{checksum(str(path))}".encode())
    save_checksums()
    return total.hexdigest()


@functools.cache
def table_digests() -> list[str]:
    """Return TABLE=DIGEST for each partial table: the SHA-256, in hexadecimal, of its queries."""
    digests = []
    for name in queries.names("analyze"):
        total = hashlib.sha256()
        for stage, query in analyze.queries_of(name):
            total.update(f"{stage}/{query}\0{checksum(str(queries.DIRECTORY / stage / f'{query}.sql'))}".encode())
        digests.append(f"{name}={total.hexdigest()}")
    save_checksums()
    return digests


def tables_named(path: str) -> list[str]:
    """Return the tables whose schemas a module reads by their names."""
    return TABLE.findall(content(Path(path)).decode())


def columns(table: str) -> list[tuple]:
    """Return name, type and nullability of the columns of a table, as in the Arrow schema."""
    return [(column["name"], column["type"], column["null"] != "never") for column in schemas.table(table)["columns"]]


@functools.cache
def heuristics_digest() -> str:
    """Return the SHA-256, in hexadecimal, of schemas/heuristics.tsv, which stage analyze reads."""
    return hashlib.sha256(content(schemas.root() / "heuristics.tsv")).hexdigest()


@functools.cache
def checksum(path: str) -> str:
    """Return the SHA-256 of a source file without comments, docstrings and messages (cached)."""
    return canonical.checksums(checksums_file()).of(Path(path), content(Path(path)))


def save_checksums() -> None:
    """Keep checksums for the next start of Snakemake."""
    canonical.checksums(checksums_file()).save()


@functools.cache
def checksums_file() -> Path:
    """Return the file with checksums of sources, next to the modules that Python has compiled."""
    return package_directory("acapella") / "__pycache__" / "checksums.json"


def closure(*stages: str) -> tuple[set[Source], set[str], bool]:
    """Return the source files of ``stages`` and their imports, their OUTPUT_PACKAGES, and whether the core is used.

    Imports are followed transitively in Acapella's packages.
    """
    files: set[Source] = set()
    foreign: set[str] = set()
    native = False
    pending, visited = list(stages), set()
    while pending:
        name = pending.pop()
        if name in visited:
            continue
        visited.add(name)
        found = module(name, all_modules=name in stages)
        files.update(found.files)
        foreign |= found.foreign
        native = native or found.native
        pending += found.imported
    return files, foreign, native


@functools.cache
def module(name: str, all_modules: bool) -> Module:
    """Return the contribution of a module or package to the digest (cached); ``all_modules``: see `module_files`."""
    paths = module_files(name, all_modules)
    names = {imported for path in paths if path.suffix == ".py" for imported in imports(path, name)}
    top_level = {imported.partition(".")[0] for imported in names}
    return Module(
        files=tuple(source(path) for path in paths),
        foreign=frozenset(OUTPUT_PACKAGES[name] for name in top_level & OUTPUT_PACKAGES.keys()),
        native=any(imported.startswith(NATIVE) for imported in names),
        imported=frozenset(imported for imported in names if module_files(imported)),
    )


@functools.cache
def source(path: Path) -> Source:
    """Return a file in sortable form (cached, because pathlib is slow)."""
    return Source(path.parent.name, path.name, str(path))


@functools.cache
def module_files(name: str, all_modules: bool = False) -> list[Path]:
    """Return the file of a module, or `__init__.py` and the data files of a package; [] for any other name.

    ``all_modules`` adds all modules of the package, as required by packages that load modules by name. A top-level
    package has no files here, because its `__init__.py` imports no stage.
    """
    top, _, rest = name.partition(".")
    directory = package_directory(top) if rest and top in ACAPELLA_PACKAGES else None
    if directory is None:
        return []
    path = os.path.join(directory, *rest.split("."))  # noqa: PTH118 - most names are not modules, and pathlib is slow
    parent, last = os.path.split(path)
    if last in (entries := directory_entries(parent)) and entries[last]:
        found = Path(path).rglob("*") if all_modules else Path(path).iterdir()
        return [file for file in found if file.is_file() and (file.suffix in DATA or is_code(file, all_modules))]
    return [Path(f"{path}.py")] if f"{last}.py" in entries else []


@functools.cache
def directory_entries(path: str) -> dict[str, bool]:
    """Return the names in a directory, and whether they are directories; empty if it is missing (cached)."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
        return {entry.name: entry.is_dir() for entry in entries}
    return {}


def is_code(file: Path, all_modules: bool) -> bool:
    """Return whether a file of a package is a module that the digest includes."""
    return file.suffix == ".py" and (all_modules or file.name == "__init__.py")


DATA = (".html", ".css", ".js", ".json", ".sql", ".yaml", ".j2", ".txt")


@functools.cache
def package_directory(top: str) -> Path | None:
    """Return the directory of a top-level package of Acapella; None if it is not installed, or for other packages."""
    spec = find_spec(top) if top in ACAPELLA_PACKAGES else None
    return Path(spec.origin).parent if spec and spec.origin else None


@functools.cache
def imports(path: Path, name: str) -> tuple[str, ...]:
    """Return the dotted names in the import statements of a module, including those in functions (cached)."""
    return tuple(imported_names(content(path).decode(), package_of(path, name)))


def package_of(path: Path, name: str) -> str:
    """Return the package to which relative imports of the module ``name`` in the file ``path`` refer."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    top = package_directory(name.partition(".")[0])
    if top and path.is_relative_to(top):  # with ``all_modules``, the file may be in a subpackage
        package = ".".join([name.partition(".")[0], *path.relative_to(top).parent.parts])
    return package


def imported_names(source: str, package: str) -> Iterator[str]:
    """Yield the dotted names in the import statements of a module's source; ``package`` resolves relative imports.

    A regular expression finds the statements, because parsing all modules would take a quarter of Snakemake's
    startup time. A line of a string that looks like an import statement only adds names that are not modules.
    """
    for match in IMPORT.finditer(COMMENT.sub("", source)):
        level, base, names = len(match["dots"] or ""), match["base"], imported(match["names"])
        if base is None:
            yield from names
            continue
        if level:
            parts = package.split(".")
            above = parts[: len(parts) - level + 1]
            base = ".".join([*above, *([base] if base else [])])
        yield base
        yield from (f"{base}.{name}" for name in names)


def imported(names: str) -> Iterator[str]:
    """Yield the names in the list of an import statement, without their `as` aliases."""
    return (name.split()[0] for name in names.strip("() \t").split(",") if name.strip())


def native_root() -> Path:
    """Return the directory of the source tree with the native core."""
    return package_directory("acapella_core").parents[3]


@functools.cache
def native_sources() -> tuple[Path, ...]:
    """Return the sources of the native core: C++ files and the tables of protocols, report formats and tunnels."""
    root = native_root()
    sources = [file for file in (root / SOURCES).rglob("*") if file.suffix in (".cpp", ".hpp")]
    tables = ("protocols", "report_formats", "tunnels")
    return (*sources, *(root / f"schemas/{table}.tsv" for table in tables))


@functools.cache
def outdated_core() -> str:
    """Return the SHA-256 of the sources of the installed core if they are not those in the tree, otherwise "".

    Comments and the text of exceptions are ignored, as in `generate_checksum.py`. The digest of a stage that ran with
    an outdated core therefore changes when the core is rebuilt.
    """
    root = native_root() / SOURCES
    files = {
        path.name if path.suffix == ".tsv" else path.relative_to(root).as_posix(): path for path in native_sources()
    }
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        total.update(f"{name}\0{checksum(path)}".encode())
    built_from = getattr(_native, "sources_sha256", "unknown")  # a core of an earlier version does not have it
    return "" if total.hexdigest() == built_from else built_from


@functools.cache
def content(path: Path) -> bytes:
    """Return the content of a file (cached)."""
    return path.read_bytes()


@functools.cache
def loader_digest() -> str:
    """Return the SHA-256, in hexadecimal, of the loader of P4 programs and of the file with names of drop reasons.

    Return "none" if there is no loader.
    """
    try:
        files = [Path(program.loader()), program.SPEC.with_suffix(".json")]
    except UserError:
        return "none"
    return hashlib.sha256(b"".join(content(path) for path in files if path.is_file())).hexdigest()


def tshark_version(engine: str) -> str:
    """Return the version of tshark, on which its dissection depends; "" if the engine does not use tshark.

    Return "none" if there is no tshark; `acapella digest` then reports the error.
    """
    if engine == "native":
        return ""
    try:
        return tshark.find().version
    except UserError:
        return "none"


def installed_versions(engine: str) -> str:
    """Return the versions on which the output of `acapella digest` depends; "none" if tshark is needed but missing."""
    try:
        return installed.versions(engine)
    except UserError:
        return "none"


def vendors_sha256() -> str:
    """Return the SHA-256 digests of the lists of vendors, which the core uses for pseudowires in every engine.

    Return "none" if there are no lists.
    """
    installed = vendors.find()
    return " ".join(installed.sha256.values()) if installed else "none"


@functools.cache
def version_of(package: str) -> str:
    """Return the installed version of a package; "none" if it is missing, which the stage reports when it runs."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
