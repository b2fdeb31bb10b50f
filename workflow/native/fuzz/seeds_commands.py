"""Seeds of fuzz_commands: lines of each kind. Usage: seeds_commands.py DIRECTORY."""

import sys
from pathlib import Path

LINES = (
    "record 0 0",
    "record 1700000000000000000 1700000001000000000",
    "rolling 10",
    "load /tmp/in.pcap",
    "stop",
    "clear",
    "run 1700000000000000000 3 1000000",
    "run 0 1 2000000",
    "status",
    "save out.pcapng",
    "departures a file",
    "answer 1 " + "02" * 14,
    "quit",
)


def main() -> None:
    """Write the seeds into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(LINES):
        (directory / f"{number:02}").write_text(line + "\n", encoding="ascii")
    (directory / "all").write_text("\n".join(LINES) + "\n", encoding="ascii")
    (directory / "long").write_text("status\n" + "x" * 9000 + "\nquit\n", encoding="ascii")


if __name__ == "__main__":
    main()
