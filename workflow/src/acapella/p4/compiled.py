"""Compiles P4 programs: DPDK generates C code, from which the C compiler creates a shared library, which is cached.

The cache contains executable code, so it is a private directory: $XDG_CACHE_HOME/acapella/p4, mode 0700. A directory or
library that other users can write is rejected. The name of a library is the SHA-256 of the C code (which depends on
the program, its bounds checks and DPDK's version), the compiler's version and its flags.
"""

import dataclasses
import hashlib
import os
import shlex
import stat
import subprocess
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import scratch_directory

from . import data_plane

PIPELINES = ("auto", "compiled", "interpreted")
SOURCE_VARIABLE = "ACAPELLA_DPDK_SOURCE"
DEFAULT_SOURCE = Path(__file__).resolve().parents[4] / "build" / "dpdk-source"  # make dpdk-source
# Included by the generated code; Debian's libdpdk-dev does not contain them.
HEADERS = ("rte_swx_pipeline_internal.h", "rte_swx_pipeline_spec.h")
FLAGS = ("-O3", "-shared", "-fPIC", "-w", "-fstack-protector-strong", "-Wl,-z,relro,-z,now,-z,noexecstack")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
GET_SOURCE = "run make dpdk-source, or specify its directory with --dpdk-source"


class NotCompiledError(Exception):
    """The program cannot run compiled on this machine; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A program's compiled library, or None and the reason why the program is interpreted ("" if requested)."""

    library: Path | None
    reason: str = ""


def choose(mode: str, loader: str, spec: Path, source: Path | None) -> Pipeline:
    """Return the pipeline for ``spec``; ``mode`` is one of PIPELINES, ``source`` the directory of --dpdk-source.

    Raises UserError if ``mode`` is "compiled" and the program cannot be compiled.
    """
    if mode == "interpreted":
        return Pipeline(None)
    try:
        return Pipeline(library_of(loader, spec, find_source(source)))
    except NotCompiledError as error:
        if mode == "compiled":
            raise UserError(str(error), where="--pipeline compiled", fix="or use --pipeline interpreted") from error
        return Pipeline(None, str(error))


def find_source(source: Path | None) -> Path | None:
    """Return DPDK's source directory from the option, the environment, or make dpdk-source; None if there is none."""
    if source is not None:
        return source
    if os.environ.get(SOURCE_VARIABLE):
        return Path(os.environ[SOURCE_VARIABLE])
    return DEFAULT_SOURCE if DEFAULT_SOURCE.is_dir() else None


def cache_directory() -> Path:
    """Return the path of the cache, which need not exist."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "acapella" / "p4"


def library_of(loader: str, spec: Path, source: Path | None) -> Path:
    """Return the library of a program; compile it if the cache does not contain it. Raises NotCompiledError."""
    cache = cache_directory()
    if source is None and not any(cache.glob("*.so")):
        raise NotCompiledError(f"no DPDK source; {GET_SOURCE}")
    make_private(cache)
    with scratch_directory(cache) as directory:
        code = directory / "pipeline.c"
        output_of([loader, "--spec", str(spec), "--generate", str(code)])
        compile_command = compiler()
        library = cache / f"{key_of(code, compile_command)}.so"
        if not os.path.lexists(library):
            if source is None:
                raise NotCompiledError(f"not in the cache, and no DPDK source; {GET_SOURCE}")
            check_source(source, version_of(code))
            data_plane.log(f"compiling {spec.stem}; the library is cached in {cache}")
            compile_library(code, compile_command, source, library)
    check_library(library)
    return library


def make_private(cache: Path) -> None:
    """Create the cache directory with mode 0700. Raises NotCompiledError if other users can write or replace it."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.mkdir(mode=0o700, exist_ok=True)
        cache_status = cache.lstat()
        if (
            not stat.S_ISDIR(cache_status.st_mode)
            or cache_status.st_uid != os.geteuid()
            or cache_status.st_mode & WRITABLE_BY_OTHERS
        ):
            raise NotCompiledError(f"{cache}: must be a directory that only its owner can write")
        for parent in cache.resolve().parents:
            status = parent.stat()
            shared = status.st_mode & WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX
            if shared or status.st_uid not in (0, os.geteuid()):
                raise NotCompiledError(f"{cache}: other users can write {parent}; set XDG_CACHE_HOME")
    except OSError as error:
        raise NotCompiledError(f"{cache}: {error.strerror}") from error


def check_library(library: Path) -> None:
    """Raise NotCompiledError unless the library is a regular file of this user that no other user can write."""
    status = library.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & WRITABLE_BY_OTHERS:
        raise NotCompiledError(f"{library}: must be a file that only its owner can write; remove it")


def output_of(command: list[str]) -> str:
    """Return the output of a command. Raises NotCompiledError with a line of its standard error if it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise NotCompiledError(f"{command[0]}: {error.strerror}") from error
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        errors = [line for line in lines if "error:" in line]
        raise NotCompiledError(f"{Path(command[0]).name} failed: {(errors or lines[-1:])[0]}")
    return result.stdout


def compiler() -> list[str]:
    """Return the C compiler's command with all flags except those for DPDK's source. Raises NotCompiledError."""
    flags = shlex.split(output_of(["pkg-config", "--cflags", "libdpdk"]))
    return [*shlex.split(os.environ.get("CC") or "cc"), *FLAGS, *flags]


def version_of(code: Path) -> str:
    """Return the version of the DPDK that the loader uses, from the first line of the generated code."""
    with code.open(encoding="utf-8") as lines:
        return lines.readline().strip("/* \n").removeprefix("DPDK ")


def key_of(code: Path, compile_command: list[str]) -> str:
    """Return the SHA-256 of the generated code (it contains DPDK's version), the compiler's version and its flags."""
    driver = compile_command[: compile_command.index(FLAGS[0])]
    version = output_of([*driver, "--version"])
    return hashlib.sha256("\0".join([*compile_command, version, code.read_text(encoding="utf-8")]).encode()).hexdigest()


def check_source(source: Path, version: str) -> None:
    """Raise NotCompiledError unless ``source`` contains the headers of exactly this version of DPDK."""
    try:
        source_version = (source / "VERSION").read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise NotCompiledError(f"{source}: not DPDK's source (no VERSION file); {GET_SOURCE}") from error
    if source_version != version:
        raise NotCompiledError(f"{source}: DPDK {source_version}, but the loader is linked to {version}; {GET_SOURCE}")
    for name in HEADERS:
        if not (source / "lib" / "pipeline" / name).is_file():
            raise NotCompiledError(f"{source}: no lib/pipeline/{name}; {GET_SOURCE}")


def compile_library(code: Path, compile_command: list[str], source: Path, library: Path) -> None:
    """Compile the generated code; the library appears under its name when it is complete. Raises NotCompiledError."""
    part = code.with_suffix(".so")
    output_of([*compile_command, "-I", str(source / "lib" / "pipeline"), str(code), "-o", str(part)])
    part.chmod(0o600)
    with part.open("rb") as stream:
        os.fsync(stream.fileno())
    part.replace(library)
