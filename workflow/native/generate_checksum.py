"""Generate sources_sha256.inc, the SHA-256 of the sources of the core.

    generate_checksum.py SRC TABLE.tsv ... SOURCES_SHA256.inc

acapella/snakefile/code.py compares it with that of the sources that it finds. Comments and messages of exceptions do
not count.
"""

import hashlib
import runpy
import sys
from pathlib import Path

CPP_CODE = Path(__file__).parent / "python" / "acapella_core" / "cpp_code.py"


def checksum(sources: Path, tables: list[Path]) -> str:
    """Return the SHA-256, in hexadecimal, of the C++ files beneath a directory and of tables."""
    canonical = runpy.run_path(str(CPP_CODE))["canonical"]
    files = {path.relative_to(sources).as_posix(): path for path in sources.rglob("*.[ch]pp")}
    files |= {path.name: path for path in tables}
    total = hashlib.sha256()
    for name, path in sorted(files.items()):
        content = path.read_bytes() if path.suffix == ".tsv" else canonical(path.read_bytes())
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}".encode())
    return total.hexdigest()


def main(sources: str, *paths: str) -> None:
    """Write the file."""
    *tables, output = map(Path, paths)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f'"{checksum(Path(sources), tables)}"\n', encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
