"""Write the seeds of a fuzz target."""

import sys
from pathlib import Path


def write(seeds: dict[str, bytes]) -> None:
    """Write each seed to a file with its name, in the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        (directory / name).write_bytes(seed)
