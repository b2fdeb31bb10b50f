"""Runs tshark as a reference: its preferences, its processes, and its errors.

tshark reads untrusted input. Therefore, it runs confined (acapella.common.confined), reads captures from open file
descriptors, and has a timeout for output.

Its output must depend only on the frames. Therefore, it runs without a home or configuration directory, so that the
user's profiles, plugins and color rules cannot alter a result. It uses UTC, the C locale, no name resolution, and the
preferences below, which every result records.
"""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from acapella_core.errors import UserError
from acapella_core.files import temporary_directory

from .confined import Process, wait_readable

# Frames are truncated and samples are short. With reassembly, the result for a frame would depend on where a file
# starts. Sequence analysis and timestamps per conversation are disabled because they change no header, but take a tenth
# of the time.
# tcp.desegment_tcp_streams disables desegmentation in all protocols over TCP; each other preference about reassembly
# disables it in one protocol.
PREFERENCES = (
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.reassemble_out_of_order:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
    "tcp.track_bytes_in_flight:FALSE",
    "tcp.calculate_timestamps:FALSE",
    "tcp.summary_in_tree:FALSE",
    "udp.calculate_timestamps:FALSE",
    "udp.summary_in_tree:FALSE",
    "ip.defragment:FALSE",
    "ip.summary_in_tree:FALSE",
    "ipv6.defragment:FALSE",
    "ipv6.summary_in_tree:FALSE",
    "sctp.reassembly:FALSE",
    "sctp.tsn_analysis:FALSE",
    "tls.desegment_ssl_records:FALSE",
    "tls.desegment_ssl_application_data:FALSE",
    "quic.reassemble_crypto_out_of_order:FALSE",
    "rtp.desegment_rtp_streams:FALSE",
    "http.desegment_headers:FALSE",
    "http.desegment_body:FALSE",
    "dcerpc.desegment_dcerpc:FALSE",
    "dcerpc.reassemble_dcerpc:FALSE",
    "rpc.desegment_rpc_over_tcp:FALSE",
    "rpc.defragment_rpc_over_tcp:FALSE",
    "smb.trans_reassembly:FALSE",
    "smb.dcerpc_reassembly:FALSE",
    "smb2.pipe_reassembly:FALSE",
    "gss-api.gssapi_reassembly:FALSE",
    "netbios.defragment:FALSE",
    "capwap.reassemble:FALSE",
    "clnp.reassemble:FALSE",
    "cotp.reassemble:FALSE",
    "someip.reassemble_tp:FALSE",
    "stt.reassemble:FALSE",
    "wlan.defragment:FALSE",
    "x25.reassemble:FALSE",
)

NO_HOME = "/nonexistent"  # Debian's convention for users without home; an empty directory would have to be removed
INSTALL = "install it (Debian: apt-get install tshark), or use --engine native"
IRRELEVANT_LINE = re.compile(r"Running as user .*|\s*")
CHUNK = 1 << 20
MAX_LINE_BYTES = 16 << 20  # the fields of a frame of 256 KiB are shorter
VERSION_S = 60
TRUNCATION_MESSAGE = "cut short in the middle of a packet"

# A pcap with one TCP frame. If tshark fails on it, it fails on every capture.
INTACT = bytes.fromhex(
    "d4c3b2a1 02000400 00000000 00000000 00000400 01000000 00000000 00000000 36000000 36000000"
    "020000000002 020000000001 0800 4500002800010000400666cd0a0000010a000002 13890050 00000001 00000000"
    "50021000 00000000"
)

ANSWER_S = 120.0  # timeout for output while frames are pending; a frame takes about 10 us

_running: set[Process] = set()


@dataclass(frozen=True)
class Tshark:
    """An installed tshark: its path and its version, for example "4.0.17"."""

    path: str
    version: str

    def command(
        self, fields: Sequence[str], display_filter: str | None = None, *, as_columns: bool = False
    ) -> list[str]:
        """Return the command line that reads a capture from standard input and prints ``fields``, tab-separated.

        It prints one line for each frame that matches ``display_filter``. If a frame has a field several times, the
        values are separated by commas, outermost first.

        ``as_columns``: print the fields as columns of a packet list. tshark then only creates the requested fields
        instead of every field of the frame with its text, which halves the time per frame. However, columns are limited
        to 2,047 bytes, and hexadecimal numbers may have fewer digits. Fields may share a column: "ip.src || ipv6.src"
        lists the values of the first field, then those of the second. Every column takes time.
        """
        command = [self.path, "-n", "-l", "-r", "-"]
        if display_filter is not None:
            command += ["-Y", display_filter]
        for preference in PREFERENCES:
            command += ["-o", preference]
        if as_columns:
            columns = ",".join(f'"{field}","%Cus:{field}:0:U"' for field in fields)
            return [*command, "-o", f"gui.column.format:{columns}", "-T", "tabs"]
        command += ["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"]
        for field in fields:
            command += ["-e", field]
        return command

    @contextlib.contextmanager
    def start(
        self,
        source: str | os.PathLike,
        fields: Sequence[str],
        display_filter: str | None = None,
        *,
        as_columns: bool = False,
        limits=None,
    ) -> Iterator["Run"]:
        """Run tshark on ``source``, or on the data written to ``stdin`` of the run if ``source`` is ``-``.

        The core decompresses compressed captures within ``limits`` (acapella_core.decompression; default: those of the
        core), so that tshark reads the same bytes as the core. The caller reads the output from ``stdout`` of the run.
        tshark is killed if it is still running at the end of the block. For ``as_columns`` see `command`. Raises
        UserError if tshark cannot start.
        """
        command = self.command(fields, display_filter, as_columns=as_columns)
        with contextlib.ExitStack() as stack:
            error_output = stack.enter_context(tempfile.TemporaryFile(dir=temporary_directory()))
            stdout, output_end = pipe(stack)
            if os.fspath(source) == "-":
                input_end, stdin = pipe(stack)
            else:
                input_end, stdin = stack.enter_context(open_capture(source, stack, limits)), None
            try:
                streams = (input_end.fileno(), output_end.fileno(), error_output.fileno())
                process = Process(command, environment(), streams)
            except OSError as error:
                message = f"tshark cannot start: {error.strerror}"
                raise UserError(message, where=self.path, fix=INSTALL, outside=True) from error
            input_end.close()
            output_end.close()
            unfiltered = self.command(fields, as_columns=as_columns)
            run = Run(unfiltered, process, error_output, source, stdin, stdout)
            try:
                _running.add(process)
                yield run
            finally:
                stop(run)
                _running.discard(process)


def open_capture(source: str | os.PathLike, stack: contextlib.ExitStack, limits) -> IO[bytes]:
    """Return an open capture for tshark, which may not open files itself.

    ``stack`` ends the decompression of a compressed capture. Raises UserError if the capture cannot be read.
    """
    from .decompression import ALL, Stream, is_compressed  # noqa: PLC0415 - circular import

    if is_compressed(Path(source)):
        stream = Stream(Path(source), ALL, limits)
        stack.callback(stream.close)
        return os.fdopen(os.dup(stream.reading), "rb", buffering=0)
    try:
        return open(source, "rb", buffering=0)  # noqa: PTH123 - the caller closes it
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=source) from error


def pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Return both ends of a pipe, which ``stack`` closes."""
    reading, writing = os.pipe()
    ends = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
    for end in ends:
        stack.callback(close, end)
    return ends


def close(stream: IO[bytes]) -> None:
    """Close one end of a pipe. Data that is still buffered is discarded if the reader has closed its end."""
    with contextlib.suppress(BrokenPipeError):
        stream.close()


@dataclass(frozen=True)
class Run:
    """A running tshark: write a capture to ``stdin`` (if the source is ``-``) and read lines from ``stdout``.

    ``unfiltered`` is its command line without the display filter, which the user may have written incorrectly.
    """

    unfiltered: Sequence[str]
    process: Process
    error_output: IO[bytes]
    source: str | os.PathLike
    stdin: IO[bytes] | None
    stdout: IO[bytes]

    def lines(self, answer_s: float = ANSWER_S) -> Iterator[bytes]:
        """Yield the output of tshark in blocks of complete lines, without the last line end.

        Raises UserError if tshark prints nothing for ``answer_s`` seconds, or a line that is too long.
        """
        rest = b""
        while True:
            if not wait_readable(self.stdout.fileno(), answer_s):
                raise UserError(f"tshark printed nothing for {answer_s:g} s", where=self.source)
            chunk = os.read(self.stdout.fileno(), CHUNK)
            if not chunk:
                break
            complete_lines, newline, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                raise UserError(f"tshark printed a line of more than {MAX_LINE_BYTES} bytes", where=self.source)
            if newline:
                yield complete_lines
        if rest:
            yield rest

    def finish(self, *, cut_allowed: bool = False, answer_s: float = ANSWER_S) -> None:
        """Wait for tshark to end. Raises UserError with tshark's error message if it failed, or if it does not end.

        tshark prints the complete frames of a truncated capture, then fails; with ``cut_allowed``, this counts as
        success. If the command also fails on an intact capture, the machine is the cause, and the error is ``outside``.
        """
        where = "tshark" if os.fspath(self.source) == "-" else self.source
        try:
            status = self.process.wait(answer_s)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"tshark did not end within {answer_s:g} s", where=where) from error
        self.error_output.seek(0)
        errors = self.error_output.read(CHUNK).decode(errors="replace")
        if status == 0 or (cut_allowed and TRUNCATION_MESSAGE in errors):
            return
        outcome = f"ended by signal {-status}" if status < 0 else f"exit code {status}"
        message = f"tshark failed ({outcome}): {error_line(errors) or 'no error message'}"
        if status == -signal.SIGKILL:  # sent by the kernel if memory is exhausted
            raise UserError(message, where=where, outside=True)
        if not works(self.unfiltered):
            raise UserError(
                message, where=self.unfiltered[0], fix=f"it fails on every capture; {INSTALL}", outside=True
            )
        raise UserError(message, where=where)


def works(command: Sequence[str]) -> bool:
    """Return whether a command line of tshark succeeds on an intact capture."""
    with (
        tempfile.TemporaryFile(dir=temporary_directory()) as capture,
        tempfile.TemporaryFile(dir=temporary_directory()) as output,
    ):
        capture.write(INTACT)
        capture.seek(0)
        try:
            process = Process(command, environment(), (capture.fileno(), output.fileno(), output.fileno()))
        except OSError:
            return False
        try:
            return process.wait(VERSION_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()


def error_line(errors: str) -> str:
    """Return the first relevant line of tshark's standard error, without its prefix.

    Empty lines and the warning about running as root are skipped.
    """
    for line in errors.splitlines():
        if not IRRELEVANT_LINE.fullmatch(line):
            return line.removeprefix("tshark: ").strip()
    return ""


def stop(run: Run) -> None:
    """Kill the process if it is still running, close the pipes, and wait for the process."""
    run.process.kill()
    for stream in (run.stdin, run.stdout):
        if stream:
            close(stream)
    run.process.wait()


def stop_all() -> None:
    """Kill every running tshark. Threads that read its output get an error and end."""
    for process in list(_running):
        process.kill()


def environment() -> dict[str, str]:
    """Return the environment of tshark, which excludes the user's settings."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": NO_HOME,
        "XDG_CONFIG_HOME": NO_HOME,
        "WIRESHARK_CONFIG_DIR": NO_HOME,
        "TZ": "UTC",
        "LC_ALL": "C",
    }


def find() -> Tshark:
    """Return the tshark on the PATH. Raises UserError if there is none, or if it cannot start."""
    path = shutil.which("tshark")
    if path is None:
        raise UserError("tshark not found on the PATH", fix=INSTALL, outside=True)
    status = Path(path).stat()
    return Tshark(path, version_of(path, (status.st_ino, status.st_mtime_ns)))


@functools.cache
def version_of(path: str, state: tuple[int, int]) -> str:
    """Return the version of an installed Wireshark. Raises UserError if no version is printed.

    The version is cached for processes that fork others, such as `acapella campaign batch`. ``state``: inode and
    modification time of the program.

    The version is read from dumpcap in the directory of tshark. If dumpcap is missing or not executable, it is read
    from tshark, which takes 30 times as long, because tshark first registers every dissector.
    """
    for program in (Path(path).with_name("dumpcap"), Path(path)):
        if os.access(program, os.X_OK):
            version = re.search(r"\(Wireshark\) (\d+(?:\.\d+)+)", version_text(program))
            if version:
                return version[1]
    raise UserError("tshark did not print its version", where=path, fix=INSTALL, outside=True)


def version_text(program: Path) -> str:
    """Return the output of a program for --version. Raises UserError if it cannot start or does not end in time."""
    try:
        result = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
            timeout=VERSION_S,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"it printed no version within {VERSION_S} s", where=program, fix=INSTALL, outside=True
        ) from error
    except OSError as error:
        raise UserError(f"it cannot start: {error.strerror}", where=program, fix=INSTALL, outside=True) from error
    return result.stdout
