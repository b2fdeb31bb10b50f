"""tshark as a reference: its preferences in one list, one way to start it, and what it said when it failed.

It reads hostile input, so it runs confined (acapella.common.confined), gets captures as open files, and has a time
limit for every answer.

Its answers must be a function of the frames alone. So it runs without home and configuration directory (a user's
profile, plugins or color rules never alter a result), in UTC and the C locale, without name resolution, and with
the preferences below, which every result records.
"""

import contextlib
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

from .confined import Process, readable

# Captures are cut and samples are short: whatever joins frames would make an answer depend on where a file happens
# to start. Sequence analysis and time stamps per conversation change no header, and cost a tenth of the time.
# tcp.desegment_tcp_streams is the master switch of every protocol that desegments over TCP; the others reassemble
# on their own.
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

NO_HOME = "/nonexistent"  # as Debian names a home that there is not; an empty directory would have to be cleared away
INSTALL = "install it (Debian: apt-get install tshark), or use --engine native"
NOISE = re.compile(r"Running as user .*|\s*")
CHUNK = 1 << 20
LONGEST_LINE = 16 << 20  # fields of a frame of 256 KiB take less
VERSION_S = 60
CUT_SHORT = "cut short in the middle of a packet"

# A frame of TCP in a pcap: a tshark that fails on it fails on every capture.
SOUND = bytes.fromhex(
    "d4c3b2a1 02000400 00000000 00000000 00000400 01000000 00000000 00000000 36000000 36000000"
    "020000000002 020000000001 0800 4500002800010000400666cd0a0000010a000002 13890050 00000001 00000000"
    "50021000 00000000"
)

ANSWER_S = 120.0  # for an answer while frames wait for one; a frame takes some 10 us

_running: set[Process] = set()


@dataclass(frozen=True)
class Tshark:
    """An installed tshark: its path and its version, as "4.0.17"."""

    path: str
    version: str

    def command(
        self, fields: Sequence[str], display_filter: str | None = None, *, as_columns: bool = False
    ) -> list[str]:
        """The command line that prints ``fields`` of every frame on standard input that ``display_filter`` shows, a
        line a frame, tab-separated; a field that a frame has several times is a comma-separated list, outermost first.

        ``as_columns``: they come as the columns of a packet list. tshark then builds the asked fields alone instead of
        every field of the frame with its text, which halves its time a frame; but no column is longer than 2,047
        bytes, and a number's hexadecimal digits may be fewer. Fields may share a column: "ip.src || ipv6.src" lists the
        values of the first, then those of the second. Every column costs time.
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
        """Run tshark over ``source``, or, if that is ``-``, over what is written to the run's ``stdin``.

        A compressed capture is decompressed by the core within ``limits`` (acapella_core.decompression; by
        default the core's), so that tshark gets the bytes that the core reads. Its lines are to be read from
        the run's ``stdout``. Killed if the block is left before it ended. ``as_columns``: as for command().
        Raises UserError if tshark does not start.
        """
        command = self.command(fields, display_filter, as_columns=as_columns)
        with contextlib.ExitStack() as stack:
            complaints = stack.enter_context(tempfile.TemporaryFile(dir=temporary_directory()))
            stdout, answers = pipe(stack)
            if os.fspath(source) == "-":
                questions, stdin = pipe(stack)
            else:
                questions, stdin = stack.enter_context(opened(source, stack, limits)), None
            try:
                streams = (questions.fileno(), answers.fileno(), complaints.fileno())
                process = Process(command, environment(), streams)
            except OSError as error:
                what = f"tshark does not start: {error.strerror}"
                raise UserError(what, where=self.path, fix=INSTALL, outside=True) from error
            questions.close()
            answers.close()
            unfiltered = self.command(fields, as_columns=as_columns)
            run = Run(unfiltered, process, complaints, source, stdin, stdout)
            _running.add(process)
            try:
                yield run
            finally:
                stop(run)
                _running.discard(process)


def opened(source: str | os.PathLike, stack: contextlib.ExitStack, limits) -> IO[bytes]:
    """Open a capture: tshark may not. ``stack`` ends the decompression of a compressed one. Raises UserError."""
    from .decompression import ALL, Stream, is_compressed  # noqa: PLC0415 - it imports what imports this module

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
    """Close a pipe's end; what was not sent yet may have no reader any more."""
    with contextlib.suppress(BrokenPipeError):
        stream.close()


@dataclass(frozen=True)
class Run:
    """A running tshark: write a capture to ``stdin`` (if its source is ``-``), read lines from ``stdout``.

    ``unfiltered`` is its command line without the display filter, whose errors are the user's.
    """

    unfiltered: Sequence[str]
    process: Process
    complaints: IO[bytes]
    source: str | os.PathLike
    stdin: IO[bytes] | None
    stdout: IO[bytes]

    def lines(self, answer_s: float = ANSWER_S) -> Iterator[bytes]:
        """Yield what tshark prints, whole lines at a time. Raises UserError if it prints nothing for ``answer_s``."""
        rest = b""
        while True:
            if not readable(self.stdout.fileno(), answer_s):
                raise UserError(f"tshark printed nothing for {answer_s:g} s", where=self.source)
            chunk = os.read(self.stdout.fileno(), CHUNK)
            if not chunk:
                break
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > LONGEST_LINE:
                raise UserError(f"tshark printed a line of more than {LONGEST_LINE} bytes", where=self.source)
            if newline:
                yield whole
        if rest:
            yield rest

    def finish(self, *, cut_allowed: bool = False, answer_s: float = ANSWER_S) -> None:
        """Wait for the end. Raises UserError with tshark's own words if it failed, or does not end.

        A capture that ends inside a record is answered up to there; ``cut_allowed`` takes that as success. If the
        command also fails on a sound capture, the machine is the cause: the error is ``outside``.
        """
        where = "tshark" if os.fspath(self.source) == "-" else self.source
        try:
            status = self.process.wait(answer_s)
        except subprocess.TimeoutExpired as error:
            raise UserError(f"tshark does not end within {answer_s:g} s", where=where) from error
        self.complaints.seek(0)
        said = self.complaints.read(CHUNK).decode(errors="replace")
        if status == 0 or (cut_allowed and CUT_SHORT in said):
            return
        ended = f"ended by signal {-status}" if status < 0 else f"exit code {status}"
        what = f"tshark failed ({ended}): {complaint(said) or 'it said nothing'}"
        if status == -signal.SIGKILL:  # the kernel does so for want of memory
            raise UserError(what, where=where, outside=True)
        if not works(self.unfiltered):
            raise UserError(what, where=self.unfiltered[0], fix=f"it fails on every capture; {INSTALL}", outside=True)
        raise UserError(what, where=where)


def works(command: Sequence[str]) -> bool:
    """Return whether a command line of tshark succeeds on a sound capture."""
    with (
        tempfile.TemporaryFile(dir=temporary_directory()) as capture,
        tempfile.TemporaryFile(dir=temporary_directory()) as shown,
    ):
        capture.write(SOUND)
        capture.seek(0)
        try:
            process = Process(command, environment(), (capture.fileno(), shown.fileno(), shown.fileno()))
        except OSError:
            return False
        try:
            return process.wait(VERSION_S) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            process.wait()


def complaint(said: str) -> str:
    """The first line of tshark's standard error that tells something: not its warning to root."""
    for line in said.splitlines():
        if not NOISE.fullmatch(line):
            return line.removeprefix("tshark: ").strip()
    return ""


def stop(run: Run) -> None:
    """Kill the process if it still runs, close the pipes, and collect it."""
    run.process.kill()
    for stream in (run.stdin, run.stdout):
        if stream:
            close(stream)
    run.process.wait()


def stop_all() -> None:
    """Kill every tshark that runs: whoever reads its output in another thread gets an error and ends."""
    for process in list(_running):
        process.kill()


def environment() -> dict[str, str]:
    """An environment in which nothing of the user's own settings reaches tshark."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": NO_HOME,
        "XDG_CONFIG_HOME": NO_HOME,
        "WIRESHARK_CONFIG_DIR": NO_HOME,
        "TZ": "UTC",
        "LC_ALL": "C",
    }


def find() -> Tshark:
    """The tshark on the PATH. Raises UserError where there is none, or it does not start."""
    path = shutil.which("tshark")
    if path is None:
        raise UserError("there is no tshark on the PATH", fix=INSTALL, outside=True)
    return Tshark(path, version_of(path))


def version_of(path: str) -> str:
    """The version of an installed Wireshark, as dumpcap beside tshark says it.

    tshark takes 30 times as long, because it registers every dissector first; it is asked where dumpcap is not there
    or may not be run.
    """
    for program in (Path(path).with_name("dumpcap"), Path(path)):
        if os.access(program, os.X_OK):
            version = re.search(r"\(Wireshark\) (\d+(?:\.\d+)+)", shown_by(program))
            if version:
                return version[1]
    raise UserError("tshark does not tell its version", where=path, fix=INSTALL, outside=True)


def shown_by(program: Path) -> str:
    """What a program prints for --version. Raises UserError where it does not start."""
    try:
        shown = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
            timeout=VERSION_S,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(
            f"it prints no version within {VERSION_S} s", where=program, fix=INSTALL, outside=True
        ) from error
    except OSError as error:
        raise UserError(f"it does not start: {error.strerror}", where=program, fix=INSTALL, outside=True) from error
    return shown.stdout
