"""tshark as a reference: its preferences in one list, one way to start it, and what it said when it failed.

Its answers must be a function of the frames alone. So it runs without home and configuration folder (a user's
profile, plugins or colour rules never alter a result), in UTC and the C locale, without name resolution, and with
the preferences below, which every result records.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from acapella_core.errors import UserError
from acapella_core.files import temporary_folder

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

NO_HOME = "/nonexistent"  # as Debian names a home that there is not; an empty folder would have to be cleared away
INSTALL = "install it (Debian: apt-get install tshark), or use --engine native"
NOISE = re.compile(r"Running as user .*|\s*")
CUT_SHORT = "cut short in the middle of a packet"


@dataclass(frozen=True)
class Tshark:
    """An installed tshark: its path and its version, as "4.0.17"."""

    path: str
    version: str

    def command(
        self,
        source: str | os.PathLike,
        fields: Sequence[str],
        display_filter: str | None = None,
        *,
        as_columns: bool = False,
    ) -> list[str]:
        """The command line that prints ``fields`` of every frame of ``source`` (``-``: standard input) that
        ``display_filter`` shows, a line a frame, tab-separated; a field that a frame has several times is a
        comma-separated list, outermost first.

        ``as_columns``: they come as the columns of a packet list. tshark then builds the asked fields alone instead of
        every field of the frame with its text, which halves its time a frame; but no list is longer than 2,047 bytes,
        and a number's hexadecimal digits may be fewer.
        """
        command = [self.path, "-n", "-l", "-r", os.fspath(source)]
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
        output: IO[bytes] | None = None,
        display_filter: str | None = None,
        *,
        as_columns: bool = False,
    ) -> Iterator["Run"]:
        """Run tshark over ``source``, or, where that is ``-``, over what is written to the run's ``stdin``.

        Its lines go to the file ``output``, or are to be read from the run's ``stdout``. Killed where the block is left
        before it ended. ``as_columns``: as for command().
        """
        with tempfile.TemporaryFile(dir=temporary_folder()) as complaints:
            process = subprocess.Popen(
                self.command(source, fields, display_filter, as_columns=as_columns),
                stdin=subprocess.PIPE if os.fspath(source) == "-" else subprocess.DEVNULL,
                stdout=subprocess.PIPE if output is None else output,
                stderr=complaints,
                env=environment(),
            )
            try:
                yield Run(process, complaints, source)
            finally:
                stop(process)


@dataclass(frozen=True)
class Run:
    """A running tshark: write a capture to ``stdin`` (where its source is ``-``), read lines from ``stdout``."""

    process: subprocess.Popen
    complaints: IO[bytes]
    source: str | os.PathLike

    @property
    def stdin(self) -> IO[bytes] | None:
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self.process.stdout

    def finish(self, *, cut_allowed: bool = False) -> None:
        """Wait for the end. Raises UserError with tshark's own words where it failed.

        A capture that ends inside a record is answered up to there; ``cut_allowed`` takes that as success.
        """
        status = self.process.wait()
        self.complaints.seek(0)
        said = self.complaints.read().decode(errors="replace")
        if status == 0 or (cut_allowed and CUT_SHORT in said):
            return
        where = "tshark" if os.fspath(self.source) == "-" else self.source
        ended = f"ended by signal {-status}" if status < 0 else f"exit code {status}"
        raise UserError(f"tshark failed ({ended}): {complaint(said) or 'it said nothing'}", where=where)


def complaint(said: str) -> str:
    """The first line of tshark's standard error that tells something: not its warning to root."""
    for line in said.splitlines():
        if not NOISE.fullmatch(line):
            return line.removeprefix("tshark: ").strip()
    return ""


def stop(process: subprocess.Popen) -> None:
    """Close the pipes, kill the process where it still runs, and collect it."""
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(BrokenPipeError):  # what was not sent yet has no reader any more
                stream.close()
    process.wait()


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
        raise UserError("there is no tshark on the PATH", fix=INSTALL)
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
    raise UserError("tshark does not tell its version", where=path, fix=INSTALL)


def shown_by(program: Path) -> str:
    """What a program prints for --version. Raises UserError where it does not start."""
    try:
        shown = subprocess.run([program, "--version"], capture_output=True, text=True, env=environment(), check=False)
    except OSError as error:
        raise UserError(f"it does not start: {error.strerror}", where=program, fix=INSTALL) from error
    return shown.stdout
