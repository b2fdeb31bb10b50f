"""Seeds of fuzz_blocks: the pcapng captures of fuzz_reader, plain and with gzip. Usage: seeds_blocks.py DIRECTORY."""

import gzip
import sys
from pathlib import Path

from seeds_reader import captures


def main() -> None:
    """Write the captures into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, plain in captures().items():
        if name.startswith("pcapng"):
            (directory / name).write_bytes(plain)
            (directory / f"{name}.gz").write_bytes(gzip.compress(plain, mtime=0))


if __name__ == "__main__":
    main()
