"""Run the whole workflow in a separate directory, for tests of Snakefile and rules."""

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import executable
from acapella_testing.requirements import require
from acapella_testing.runs import warm_acapella
from acapella_testing.source_tree import ROOT

from acapella.common.links import without_shard
from acapella_core import shards

CAPTURES = ROOT / ".test" / "captures"
# Files that must have the same bytes in every run. The catalog is excluded: its content is the same, but not the bytes
# of DuckDB's file.
RESULTS = ("acap/*", "flows/*", "tables/*", "figures/*", "report.html", "provenance/*")
DIGESTS = ("acap/*", "flows/*")
TSHARK = """#!/bin/sh
case " $* " in
  *" -r - "*) {instead} ;;
  *) exec {tshark} "$@" ;;
esac
"""
# Imported at the start of every Python interpreter. The analysis of a batch waits after it has written a table, and
# runs a statement repeatedly meanwhile.
PAUSED_ANALYSIS = """import os, sys, time
replace, held = os.replace, []
def replace_and_wait(source, target, **directories):
    replace(source, target, **directories)
    while str(target).endswith(".parquet") and os.path.exists({marker!r}):
        time.sleep(0.05)
        {instead}
if {{"batch", "analyze"}} <= {{*sys.orig_argv}}:
    os.replace = replace_and_wait
"""
SETTINGS = {"campaign": "tiny", "testbed": "files", "samples": "config/samples.tsv", "figures": {"formats": ["svg"]}}
LETTER = "Dear reader, this is not a capture at all.\n"
ENVIRONMENT = {"PYTHONSAFEPATH": "1"}
FIGURES = ("capture_quality", "frame_sizes", "throughput")  # figures of a run that does not need all of them


@functools.cache
def server() -> subprocess.Popen:
    """Return the process that forks all runs of Snakemake (snakemake_server.py); start it at the first call."""
    command = [sys.executable, str(Path(__file__).with_name("snakemake_server.py"))]
    environment = os.environ | ENVIRONMENT
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(running.communicate)
    return running


def ask_server(request: dict) -> int:
    """Run Snakemake in a fork of the server; return its exit code."""
    running = server()
    print(json.dumps(request), file=running.stdin, flush=True)
    answer = running.stdout.readline()
    assert answer, f"snakemake_server.py ended with exit code {running.wait()}"
    return int(answer)


def run_snakemake(arguments: list[str], directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess:
    """Run Snakemake in a directory to its end; return both output streams as one. ``environment``: changes to it."""
    with tempfile.NamedTemporaryFile() as output:
        request = {"arguments": arguments, "directory": str(directory), "umask": umask(), "output": output.name}
        request["environment"] = os.environ | ENVIRONMENT | warm_acapella.environment_for(environment) | environment
        return subprocess.CompletedProcess(arguments, ask_server(request), output.read().decode())


def umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    current = os.umask(0)
    os.umask(current)
    return current


class PausedProgram:
    """A program that waits at its start: `wait` returns when it has started, and `proceed` lets it continue.

    ``fifo``: the program reads a line from it.
    """

    def __init__(self, fifo: Path):
        self._fifo = fifo
        os.mkfifo(fifo)
        self._writer = None

    def wait(self, running: subprocess.Popen) -> None:
        """Wait until the program has started. Fails the test if the process that starts it ends first."""
        while self._writer is None:
            try:
                self._writer = os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # no process has opened it to read
                    raise
                assert running.poll() is None, "the run ended before it started the program"
                time.sleep(0.02)

    def proceed(self) -> None:
        """Let the program continue."""
        os.write(self._writer, b"\n")


@dataclass
class Workplace:
    """A directory with a configuration, a sample sheet and captures; `run` starts Snakemake in it."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def campaign(self) -> Path:
        return self.directory / "results" / "tiny"

    def configure(self, **changes) -> None:
        """Write config/config.yaml: settings of the tiny campaign, with changes to top-level keys."""
        write_file(self.directory / "config" / "config.yaml", yaml.safe_dump(SETTINGS | changes, sort_keys=False))

    def copy(self, directory: Path) -> "Workplace":
        """Copy all files with their modification times into a new or empty directory.

        Next to the original, relative paths in the SQL files remain the same, so that Snakemake repeats nothing.
        """
        return Workplace(shutil.copytree(self.directory, directory, symlinks=True, dirs_exist_ok=True))

    def sheet(self, *rows: tuple[str, str, str, str]) -> None:
        """Write config/samples.tsv with rows of sample, site, port, file."""
        lines = ["\t".join(row) for row in (("sample", "site", "port", "file"), *rows)]
        (self.directory / "config" / "samples.tsv").write_text("\n".join(lines) + "\n")

    def add_samples(self, names: Iterable[str]) -> None:
        """Write the sheet of samples, and their captures, each with different bytes, if they are missing."""
        from acapella_testing.frames.traces import busy_port, write_pcap  # noqa: PLC0415 (scapy is slow to import)

        directory = new_directory(self.directory / "captures")
        paths = [directory / f"{name}.pcap" for name in names]
        for number, path in enumerate(paths):
            if not path.exists():
                write_pcap(path, [(ts_ns + number, frame) for ts_ns, frame in busy_port()])
        self.sheet(*((path.stem, "alpha", "p1", f"../captures/{path.name}") for path in paths))

    def add_letter(self, *rows: tuple[str, str, str, str]) -> None:
        """Add to the sheet a sample `letter`, whose capture is a text file, and ``rows``."""
        write_file(self.directory / "captures" / "letter.pcap", LETTER)
        with (self.directory / "config" / "samples.tsv").open("a") as sheet:
            for row in (("letter", "alpha", "p3", "../captures/letter.pcap"), *rows):
                sheet.write("\t".join(row) + "\n")

    def replace_tshark(self, directory: Path, instead: str) -> None:
        """Put a tshark on PATH that runs the shell command ``instead`` for a capture; skip the test without tshark."""
        tshark = shutil.which("tshark")
        require(tshark is not None, "no tshark that reads captures")
        program = executable(directory / "programs" / "tshark", TSHARK.format(instead=instead, tshark=tshark))
        self.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"

    @contextlib.contextmanager
    def paused_tshark(self, then: str = "exit 1") -> Iterator[PausedProgram]:
        """Make tshark wait within the context, and then run the shell command ``then``.

        tshark runs confined and as another user: it may only read files next to its program, and not in tmp_path.
        """
        before = dict(self.environment)
        with tempfile.TemporaryDirectory(prefix="paused-") as directory:
            Path(directory).chmod(0o755)
            fifo = Path(directory) / "programs" / "fifo"
            self.replace_tshark(Path(directory), f"read line < '{fifo}'; {then}")
            yield PausedProgram(fifo)
        self.environment = before

    def pause_analysis(self, instead: str = "pass") -> Path:
        """Make the analysis of batches wait after it has written its first table, until the returned file is removed.

        ``instead``: Python statement to run repeatedly while it waits, which may append to the list `held`.
        """
        marker = self.directory / "programs" / "pause"
        write_file(marker.with_name("sitecustomize.py"), PAUSED_ANALYSIS.format(marker=str(marker), instead=instead))
        marker.touch()
        others = filter(None, [os.environ.get("PYTHONPATH")])
        self.environment["PYTHONPATH"] = os.pathsep.join([str(marker.parent), *others])
        return marker

    def tables_of_batch(self, batch: str = "b0001") -> list[Path]:
        """Return the partial tables of a batch that exist."""
        return [*(self.campaign / "batches" / "partial" / batch).glob("*.parquet")]

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of Snakemake for this directory."""
        snakefile = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.directory)]
        return [sys.executable, "-m", "snakemake", *snakefile, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run Snakemake to its end; return both output streams as one."""
        return run_snakemake(self.command(*arguments)[3:], self.directory, self.environment)

    def start(self, *arguments: str, output: int = subprocess.DEVNULL) -> subprocess.Popen:
        """Start `python -m snakemake` in a separate process group. ``output``: destination of both streams."""
        return subprocess.Popen(
            self.command(*arguments), cwd=self.directory, env=os.environ | self.environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def succeed(self, *arguments: str) -> str:
        """Run Snakemake and return its output. Fails the test if Snakemake fails."""
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def fail(self, *arguments: str) -> str:
        """Run Snakemake and return its output. Fails the test if Snakemake succeeds."""
        ended = self.run(*arguments)
        assert ended.returncode != 0, ended.stdout
        return ended.stdout

    def sha256(self, *patterns: str) -> dict[str, str]:
        """Return the SHA-256 of matching files of the campaign, by name without the shard of a sample."""
        in_shards = [re.sub(r"^(acap|flows)/", rf"\1/{shards.ANY}/", pattern) for pattern in patterns]
        in_shards = [re.sub(r"^flowreports/", f"flowreports/{shards.PREFIX}{shards.ANY}/", each) for each in in_shards]
        found = sorted(file for pattern in {*patterns, *in_shards} for file in self.campaign.glob(pattern))
        found = [file for file in found if file.is_file()]
        assert found, f"nothing matches {patterns} in {self.campaign}"
        names = [Path(*without_shard(file.relative_to(self.campaign))).as_posix() for file in found]
        names = [re.sub(f"^flowreports/{shards.PREFIX}{shards.ANY}/", "flowreports/", name) for name in names]
        return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in zip(names, found, strict=True)}


def only_figures(*names: str) -> dict[str, dict]:
    """Return the key `figures` of a config that draws only these figures; FIGURES if none are named."""
    return {"figures": {"formats": ["svg"], "only": [*(names or FIGURES)]}}


def from_ports(ports: dict[str, list[str]]) -> dict:
    """Return the key `collect` of a config for one node at each site, with these ports."""
    return {"mode": "sites", "sites": [*ports], "instances": 1, "port_selection": "fixed", "ports": ports}


def jobs(printed: str) -> dict[str, int]:
    """Return the number of jobs of each rule that a run executed, or that a dry run would execute."""
    table = printed.partition("Job stats:")[2].partition("total")[0]
    return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.M) if rule != "all"}


def rules_run(printed: str) -> set[str]:
    """Return the names of the rules of which a run executed jobs (see `jobs`)."""
    return {*jobs(printed)}


def processed(directory: Path, samples: dict[str, tuple[str, str]], write: Callable[[Path], object]) -> Workplace:
    """Return a workplace with tables of captures that ``write`` writes; ``samples``: site and port of each name."""
    place = Workplace(directory)
    place.configure()
    for name in samples:
        write(new_directory(directory / "captures") / f"{name}.pcapng")
    place.sheet(*((name, *at, f"../captures/{name}.pcapng") for name, at in samples.items()))
    place.succeed("--cores", "2", "process")
    return place


def workplace(directory: Path, **changes) -> Workplace:
    """Return a workplace with the three captures of .test/ at two sites."""
    place = Workplace(directory)
    place.configure(**changes)
    shutil.copytree(CAPTURES, directory / "captures")
    names = ("alpha-p1", "alpha-p2", "beta-p1")
    place.sheet(*((name, *name.split("-"), f"../captures/{name}.pcap.gz") for name in names))
    return place


def collect_in_process(place: Workplace) -> None:
    """Run `acapella collect` in this process, whose FABRIC is the one on loopback, as the rule does."""
    from acapella_capture import collect  # noqa: PLC0415 (other tests do not need it)

    place.campaign.mkdir(parents=True)
    (place.campaign / "collect.json").touch()
    config = place.directory / "config" / "config.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["acapella collect", str(place.campaign), "--config", str(config)])
        assert collect.main() == 0
