"""A digest of the code behind a stage, so that Snakemake reruns what an edit changes.

Snakemake sees a rule's command line, not the program behind it. Each rule carries `code.digest(STAGE, ...)` as a param:
the sha256 of the stage's module and of all modules of ours that it imports (found in the source text, nothing is
run), of the data files beside them, of the native core's sources where it is used, and of the versions of the
foreign packages that shape our output.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from acapella.common import tshark, vendors
from acapella_core.errors import UserError

OURS = ("acapella", "acapella_core", "acapella_capture")
SHAPING = {"altair": "altair", "duckdb": "duckdb", "pyarrow": "pyarrow", "vl_convert": "vl-convert-python"}
NATIVE = "acapella_core._native"
COMMENT = re.compile("#.*")
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*)(?P<base>[\w.]*)[ \t]+)?import\b[ \t]*(?P<names>\([^)]*\)|.*)", re.MULTILINE
)


@functools.cache
def digest(*stages: str) -> str:
    """Hex sha256 of the code behind ``stages``, dotted names of modules or packages."""
    files, foreign, native = closure(*stages)
    if native:
        files |= set(native_sources())
    total = hashlib.sha256()
    for path in sorted(files, key=lambda file: (file.parent.name, file.name, str(file))):
        total.update(f"{path.name}\0".encode() + content(path))
    for package in sorted(foreign):
        total.update(f"{package} {version_of(package)}\n".encode())
    return total.hexdigest()


def closure(*stages: str) -> tuple[set[Path], set[str], bool]:
    """Files of ours that ``stages`` reach, the packages of SHAPING among their imports, whether the native core is."""
    files: set[Path] = set()
    foreign: set[str] = set()
    native = False
    waiting, seen = list(stages), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in module_files(name, whole=name in stages):
            files.add(path)
            if path.suffix != ".py":
                continue
            for imported in imports(path, name):
                native = native or imported.startswith(NATIVE)
                if imported.partition(".")[0] in OURS:
                    waiting.append(imported)
                elif imported.partition(".")[0] in SHAPING:
                    foreign.add(SHAPING[imported.partition(".")[0]])
    return files, foreign, native


@functools.cache
def module_files(name: str, whole: bool = False) -> list[Path]:
    """Return the file of a module, or of a package its `__init__.py` and its data files; [] for any other name.

    ``whole`` adds all modules of the package, which a package that loads them by name needs. A top package has no
    files of its own here: its `__init__.py` imports no stage.
    """
    top, _, rest = name.partition(".")
    directory = package_directory(top)
    if directory is None or not rest:
        return []
    path = directory.joinpath(*rest.split("."))
    if path.is_dir():
        found = path.rglob("*") if whole else path.iterdir()
        return [file for file in found if file.is_file() and (file.suffix in DATA or is_code(file, whole))]
    return [path.with_suffix(".py")] if path.with_suffix(".py").is_file() else []


def is_code(file: Path, whole: bool) -> bool:
    """Return whether a file of a package is a module that counts."""
    return file.suffix == ".py" and (whole or file.name == "__init__.py")


DATA = (".html", ".css", ".js", ".json", ".sql", ".yaml", ".j2", ".txt")


@functools.cache
def package_directory(top: str) -> Path | None:
    """Where a top package of ours is; None where it is not installed."""
    spec = find_spec(top) if top in OURS else None
    return Path(spec.origin).parent if spec and spec.origin else None


@functools.cache
def imports(path: Path, name: str) -> tuple[str, ...]:
    """Dotted names that a module's import statements reach, those inside functions included; read once in a process."""
    return tuple(imported_names(content(path).decode(), package_of(path, name)))


def package_of(path: Path, name: str) -> str:
    """The package that relative imports of the module ``name`` in the file ``path`` count from."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    top = package_directory(name.partition(".")[0])
    if top and path.is_relative_to(top):  # a file of a package that was taken whole: its own place counts
        package = ".".join([name.partition(".")[0], *path.relative_to(top).parent.parts])
    return package


def imported_names(source: str, package: str) -> Iterator[str]:
    """Dotted names of the import statements of a module's source, relative ones counted from ``package``.

    Found by their first words, because syntax trees of all modules take a quarter of the time that Snakemake needs to
    start. A line of a text that begins like a statement adds names of no module.
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
    """Yield the names of an import statement's list, without those that `as` gives them."""
    return (name.split()[0] for name in names.strip("() \t").split(",") if name.strip())


def native_sources() -> list[Path]:
    """What the native core is made of: its sources, the tables of protocols and of report formats."""
    core = package_directory("acapella_core")
    root = core.parents[3]
    sources = [file for file in (root / "workflow/native/src").rglob("*") if file.suffix in (".cpp", ".hpp")]
    tables = ("protocols", "report_formats", "tunnels")
    return [*sources, *(root / f"schemas/{table}.tsv" for table in tables)]


@functools.cache
def content(path: Path) -> bytes:
    """A file's bytes, read once in a process."""
    return path.read_bytes()


def tshark_version(engine: str) -> str:
    """What tshark decides depends on its version; "" where the engine does without. Where there is none, "none": the
    digest itself says so.
    """
    if engine == "native":
        return ""
    try:
        return tshark.find().version
    except UserError:
        return "none"


def vendors_sha256() -> str:
    """Of the lists of vendors that the core decides pseudowires by, in any engine; "none" where there are none."""
    known = vendors.find()
    return " ".join(known.sha256.values()) if known else "none"


@functools.cache
def version_of(package: str) -> str:
    """The installed version, or that there is none: the stage says so when it runs."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
