"""Usage errors: one line that states what failed, where, and what to do, and exit code 2."""

import errno
import os
import shutil
import signal
import sys
from importlib.metadata import entry_points
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.new_files import write_file
from acapella_testing.processes import run

from acapella.cli import commands, doctor, entry
from acapella.cli.commands import COMMANDS, Group
from acapella.cli.main import format_error, main
from acapella_capture import collect
from acapella_capture.control.outcomes import Outcome
from acapella_core.errors import INTERNAL, OUTSIDE


def usage_error_line(capsys, *argv: str) -> str:
    """Return the one line on standard error."""
    with pytest.raises(SystemExit) as ended:
        main(list(argv))
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    (line,) = printed.err.splitlines()
    return line


@pytest.mark.parametrize(
    "command",
    [
        words
        for name, command in COMMANDS.items()
        for words in ([f"{name} {inner}" for inner in command.modules] if isinstance(command, Group) else [name])
    ],
)
def test_unknown_option_is_reported_in_one_line(command, capsys):
    line = usage_error_line(capsys, *command.split(), *("x" for _ in range(4)), "--no\nsuch=option")
    assert line.startswith(f"acapella: error: {command}: ")
    assert line.endswith(f"; see acapella {command} --help")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "acapella: error: the following arguments are required: COMMAND; see acapella --help"),
        (
            ["digst"],
            "acapella: error: argument COMMAND: 'digst' is unknown (did you mean digest?); see acapella --help",
        ),
        (
            ["digest", "a.pcap", "--engine", "nativ"],
            "acapella: error: digest: argument --engine: 'nativ' is unknown (did you mean native?); see acapella "
            "digest --help",
        ),
        (
            ["digest", "a.pcap"],
            "acapella: error: digest: the following arguments are required: -o; see acapella digest --help",
        ),
        (
            ["digest", "a.pcap", "-o", "a.parquet", "--flwos", "f.parquet"],
            "acapella: error: digest: unrecognized arguments: --flwos (did you mean --flows?); see "
            "acapella digest --help",
        ),
        (
            ["verify", "a.pcap", "--engine", "x"],
            "acapella: error: verify: argument --engine: 'x' is unknown; choose from hybrid, native, tshark; see "
            "acapella verify --help",
        ),
    ],
)
def test_usage_error_is_one_line(argv, line, capsys):
    assert usage_error_line(capsys, *argv) == line


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("digest a.pcap -o x.csv", "-o: x.csv: the output is Parquet, not CSV; choose a name such as x.parquet; to "),
        (
            "digest a.pcap -o x --flows d/F.JSON",
            "--flows: d/F.JSON: the output is Parquet, not JSON; choose a name such",
        ),
        ("kappa a.pcap b.pcap -o x.txt", "-o: x.txt: the output is JSON, not text; choose a name such as x.json"),
        ("extract a.pcap -o x.parquet", "-o: x.parquet: the output is a capture, not Parquet; choose a name such as "),
        (
            "extract a.pcap -o x.pcap.gz",
            "-o: x.pcap.gz: the output is a capture, not compressed; choose a name such as x.pcap",
        ),
        ("anonymize a.pcap --key-file k -o x.csv", "-o: x.csv: the output is a capture, not CSV; choose a name such"),
        (
            "p4 compare a.pcap --flows f -o x.csv",
            "-o: x.csv: the output is JSON, not CSV; choose a name such as x.json",
        ),
        ("campaign slice-records a.json -o x.json", "-o/--output: x.json: the output is CSV, not JSON; choose a name"),
        ("measure collector -o x.csv", "-o/--output: x.csv: the output is JSON, not CSV; choose a name such as x.json"),
        ("measure storage -o x.csv", "-o/--output: x.csv: the output is JSON, not CSV; choose a name such as x.json"),
        ("measure response -o x.csv", "-o/--output: x.csv: the output is JSON, not CSV; choose a name such as x.json"),
        ("generate model.yaml -o x.tsv", "--output/-o: x.tsv: the output is a capture, not TSV; choose a name such as"),
    ],
)
def test_output_with_the_extension_of_another_format_is_a_usage_error(words, error, capsys):
    command = " ".join(words.split()[: 2 if words.split()[0] in ("p4", "campaign", "measure") else 1])
    assert usage_error_line(capsys, *words.split()).startswith(f"acapella: error: {command}: argument {error}")


@pytest.mark.parametrize("words", ["generate", "measure storage"])
def test_command_of_a_missing_package_names_the_incomplete_installation(words, monkeypatch, capsys):
    monkeypatch.setattr(commands, "entry_module", lambda name: None)
    assert (
        usage_error_line(capsys, *words.split(), "model.yaml", "-o", "x.pcap")
        == f"acapella: error: {words}: the installation is incomplete; run make setup"
    )


def test_control_characters_in_an_error_are_escaped(capsys):
    assert main(["campaign", "index", "/nonexistent/\x1b]0;x\x07\n"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable() and "\\x1b]0;x\\x07\\n" in line


@pytest.mark.soak
def test_control_characters_in_names_of_files_and_sites_are_escaped(tmp_path, capsys):
    """Applies to warnings of digest, kappa and anonymize, to the output of verify, and to notes of a collection."""
    capture = write_pcap(tmp_path / "a\x1b[2J\nb.pcap", busy_port())
    capture.write_bytes(capture.read_bytes()[:-5])
    write_file(tmp_path / "c\x1b]0;x\x07.txt", "text")
    main(["digest", str(capture), "-o", str(tmp_path / "a.parquet"), "--engine", "native"])
    main(["anonymize", "--new-key", str(tmp_path / "key")])
    main(["anonymize", str(capture), "-o", str(tmp_path / "b.pcap"), "--key-file", str(tmp_path / "key")])
    main(["kappa", str(capture), str(capture)])
    main(["verify", str(tmp_path)])
    outcome = Outcome("mine", "", "S\x1bX", "failed", "no\x07")
    list(collect.report_progress([outcome, {"sample": "s", "frames_captured": 1, "notes": ["n\x1b"]}], []))
    printed, named = capsys.readouterr(), "a\\x1b[2J\\nb.pcap"
    lines = [*printed.out.split("\n"), *printed.err.split("\n")]
    assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()]
    assert sum(named in line for line in printed.err.split("\n")) == 3, printed.err
    assert any(named in line and line.startswith("A ") for line in lines)
    assert "skipped: " in printed.err and "c\\x1b]0;x\\x07.txt" in printed.err
    assert "S\\x1bX: failed: no\\x07" in lines and "note: n\\x1b" in lines


@pytest.mark.parametrize("argv", [["--nosuch"], ["campaign", "--config"], []])
def test_collect_inside_the_sandbox_reports_usage_errors_in_one_line(argv):
    ended = run(sys.executable, "-m", "acapella_capture.collect", *argv)
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line.startswith("acapella: error: collect: ")
    assert line.endswith("; see acapella collect --help")


IMPORT = """
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "acapella.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
CALL = """
from acapella.cli import main as cli
original = cli.{0}
cli.{0} = lambda *args: os.kill(os.getpid(), signal.SIGINT) or original(*args)
"""


@pytest.mark.parametrize(
    "interrupted", [IMPORT, *map(CALL.format, ("remove_scratch", "exceptions_for_signals", "run_command"))]
)
def test_ctrl_c_during_imports_or_before_the_stage_prints_one_line(interrupted):
    """This includes the time when the stage's handler is set but its exceptions are not yet caught."""
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from acapella.cli import commands, doctor, entry
{interrupted}
sys.argv = ["acapella", "doctor"]
sys.exit(entry.main())
"""
    ended = run(sys.executable, "-c", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "acapella: stopped\n")


def test_sigint_handler_is_installed_before_imports():
    """Python itself imports os before any program; -S omits the additional imports of the virtual environment."""
    program = (
        f"import os, sys; sys.path.insert(0, {str(Path(entry.__file__).parents[2])!r}); before = {{*sys.modules}}; "
        "import acapella.cli.entry; print(sorted({*sys.modules} - before))"
    )
    assert (
        run(sys.executable, "-S", "-c", program, check=True).stdout.strip()
        == "['acapella', 'acapella.cli', 'acapella.cli.entry']"
    )


def test_command_starts_in_the_module_that_handles_ctrl_c():
    (command,) = entry_points(group="console_scripts", name="acapella")
    assert command.value == "acapella.cli.entry:main"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a b.duckdb"), "a b.duckdb: Permission denied"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", b"x"), "x: No such file or directory"),
        (OSError("odd"), "odd"),
    ],
)
def test_file_error_has_the_name_and_the_reason(error, line):
    assert format_error(error) == line


@pytest.mark.parametrize(
    "error",
    [MemoryError(), duckdb.OutOfMemoryException("Allocation failure\nquery"), RuntimeError("can't allocate lock")],
    ids=repr,
)
def test_failed_allocation_ends_with_one_line(error, monkeypatch, capsys):
    """DuckDB can fail even without a query, such as while it opens a database in memory."""

    monkeypatch.setattr(doctor, "run", Mock(side_effect=error))
    assert main(["doctor"]) == OUTSIDE
    assert capsys.readouterr().err == "acapella: error: out of memory\n"
    with pytest.raises(type(error)):
        main(["doctor", "--debug"])


@pytest.mark.parametrize(
    ("then", "line"),
    [
        ("raise ValueError('equal schemas differ')", "out of memory"),
        ("raise UserError('failed to commit')", "failed to commit"),
        ("pass", "{}/file: out of memory while it was written"),
    ],
)
def test_allocation_that_a_library_ignores_ends_with_one_line(tmp_path, then, line):
    code = f"""
import ctypes, sys
from acapella.cli import doctor
from acapella.cli.main import main
from acapella_core import _native
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

def run(_):
    allocate = ctypes.CDLL("libstdc++.so.6")["_ZnwmRKSt9nothrow_t"]  # operator new that returns a null pointer
    with atomic_path("file"):
        assert not allocate(ctypes.c_size_t(1 << 62), ctypes.byref(ctypes.c_char()))
        {then}

doctor.run = run
sys.exit(main(["doctor"]))
"""
    ended = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (OUTSIDE, f"acapella: error: {line.format(tmp_path)}\n")
    assert not list(tmp_path.iterdir())


def test_exception_that_cannot_be_caught_ends_in_one_line(tmp_path):
    """Libraries that run out of memory may throw where C++ does not allow it."""
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("no C++ compiler")
    throws = r'extern "C" void fail() noexcept { throw std::runtime_error("first\nsecond"); }'
    source, library = write_file(tmp_path / "throws.cpp", f"#include <stdexcept>\n{throws}\n"), tmp_path / "throws.so"
    run(compiler, "-shared", "-fPIC", "-o", library, source, check=True)
    ended = run(sys.executable, "-c", f"import ctypes, acapella_core._native; ctypes.CDLL({str(library)!r}).fail()")
    assert ended.returncode == INTERNAL
    assert ended.stderr == "acapella: error: a library failed, perhaps because memory is short: first second\n"


CRASH = """
import ctypes, os
from acapella.cli.main import handle_fatal_signals
handle_fatal_signals(debug={debug})
{cause}
"""


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL])
def test_crash_ends_in_one_line(number):
    """Libraries that run out of memory may read through a null pointer. The exit code is that of a shell."""
    cause = "ctypes.string_at(0)" if number == signal.SIGSEGV else f"os.kill(os.getpid(), {int(number)})"
    ended = run(sys.executable, "-c", CRASH.format(debug=False, cause=cause))
    assert ended.returncode == 128 + number
    assert ended.stderr.startswith("acapella: error: "), ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert f"({number.name})" in ended.stderr


def test_debug_shows_the_location_of_a_crash():
    ended = run(sys.executable, "-c", CRASH.format(debug=True, cause="ctypes.string_at(0)"))
    assert ended.returncode == -signal.SIGSEGV
    assert "string_at" in ended.stderr


@pytest.mark.parametrize(("words", "printed"), [((), "imported\n"), (("refused",), "")])
def test_command_line_does_not_import_pandas(tmp_path, words, printed):
    """If pandas is installed, as with FABRIC's client, pyarrow imports it for its first array."""
    write_file(tmp_path / "pandas.py", "print('imported')\n__version__ = '3.0'\n")
    code = """
import sys
from acapella.cli.main import main
if "refused" in sys.argv:
    sys.argv = ["acapella", "sql", ".", "select 1"]
    main()
import pyarrow
pyarrow.array([1])
"""
    ended = run(sys.executable, "-c", code, *words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert ended.stdout == printed, ended.stderr
