"""acapella p4 run --pipeline: when programs are compiled, what is rejected, and what is printed."""

import json
import struct
import sys
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require, require_built

from acapella.cli.main import main
from acapella.p4 import compiled, run_program

FORWARD = Path(__file__).resolve().parents[3] / "p4" / "loader" / "tests" / "forward.spec"
CAPTURE = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1) + struct.pack("<IIII", 1, 2, 60, 60) + bytes(60)


@pytest.fixture
def loader():
    """Return the path of the loader; skip the test if it is not built."""
    require_built(run_program.LOADER)
    return str(Path(sys.executable).parent / run_program.LOADER)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the path of the cache of compiled programs, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "acapella" / "p4"


@pytest.fixture
def no_source(monkeypatch, tmp_path):
    """Make DPDK's source unavailable."""
    monkeypatch.delenv(compiled.SOURCE_VARIABLE, raising=False)
    monkeypatch.setattr(compiled, "DEFAULT_SOURCE", tmp_path / "absent")


@pytest.fixture
def arguments(tmp_path):
    """Return the arguments of a run over one frame that writes statistics."""
    capture = write_file(tmp_path / "in.pcap", CAPTURE)
    return ["p4", "run", str(FORWARD), "--in", str(capture), "--stats", str(tmp_path / "s.json")]


@pytest.fixture
def compiled_arguments(arguments):
    """Return the arguments of such a run with a compiled pipeline; skip the test without the source of DPDK."""
    source = compiled.find_source(None)
    require(source is not None, f"no DPDK source: {compiled.GET_SOURCE}")
    return [*arguments, "--pipeline", "compiled", "--dpdk-source", str(source)]


def fake_source(directory: Path, version: str) -> Path:
    """Create a directory that resembles DPDK's source."""
    write_file(directory / "VERSION", f"{version}\n")
    for name in compiled.HEADERS:
        write_file(directory / "lib" / "pipeline" / name, "#error not the real header\n")
    return directory


def pipeline_of(tmp_path: Path) -> str:
    return json.loads((tmp_path / "s.json").read_text())["pipeline"]


@pytest.mark.usefixtures("loader", "cache", "no_source")
def test_without_source_auto_interprets_and_prints_the_reason(arguments, tmp_path, capfd):
    assert main(arguments) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("p4: interpreted, not compiled: no DPDK source; run make dpdk-source")
    assert pipeline_of(tmp_path) == "interpreted"


@pytest.mark.usefixtures("loader", "cache", "no_source")
def test_without_source_compiled_is_an_error(arguments, tmp_path, capfd):
    assert main([*arguments, "--pipeline", "compiled"]) == 2
    error = capfd.readouterr().err
    assert error.startswith("acapella: error: --pipeline compiled: no DPDK source")
    assert error.count("\n") == 1
    assert not (tmp_path / "s.json").exists()


@pytest.mark.usefixtures("loader")
def test_interpreted_neither_compiles_nor_prints_a_reason(arguments, cache, tmp_path, capfd):
    assert main([*arguments, "--pipeline", "interpreted"]) == 0
    assert capfd.readouterr().err.count("\n") == 1
    assert not cache.exists()
    assert pipeline_of(tmp_path) == "interpreted"


@pytest.mark.usefixtures("loader", "cache")
def test_source_of_a_different_dpdk_version_is_rejected(arguments, tmp_path, capfd):
    other = fake_source(tmp_path / "dpdk", "22.11.1")
    assert main([*arguments, "--pipeline", "compiled", "--dpdk-source", str(other)]) == 2
    assert f"{other}: DPDK 22.11.1, but the loader is linked to " in capfd.readouterr().err


@pytest.mark.usefixtures("cache")
def test_compiler_error_falls_back_to_interpretation_and_leaves_no_library(loader, arguments, cache, tmp_path, capfd):
    code = tmp_path / "code.c"
    compiled.output_of([loader, "--spec", str(FORWARD), "--generate", str(code)])
    assert main([*arguments, "--dpdk-source", str(fake_source(tmp_path / "dpdk", compiled.version_of(code)))]) == 0
    assert "interpreted, not compiled: cc failed: " in capfd.readouterr().err
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("loader")
def test_library_is_compiled_once_into_a_private_cache(compiled_arguments, cache, tmp_path, capfd):
    assert main(compiled_arguments) == 0
    assert "p4: compiling forward; " in capfd.readouterr().err
    assert pipeline_of(tmp_path) == "compiled"
    (library,) = cache.iterdir()
    assert (cache.stat().st_mode & 0o777, library.stat().st_mode & 0o777) == (0o700, 0o600)
    assert main(compiled_arguments) == 0
    assert "compiling" not in capfd.readouterr().err


@pytest.mark.usefixtures("cache", "no_source")
def test_cached_library_needs_no_source(loader, arguments, tmp_path):
    source = Path(compiled.__file__).resolve().parents[4] / "build" / "dpdk-source"
    require(source.is_dir(), f"no DPDK source: {compiled.GET_SOURCE}")
    compiled.library_of(loader, FORWARD, source)
    assert main([*arguments, "--pipeline", "compiled"]) == 0
    assert pipeline_of(tmp_path) == "compiled"


@pytest.mark.usefixtures("loader")
def test_cache_writable_by_others_is_rejected(compiled_arguments, cache, capfd):
    assert main(compiled_arguments) == 0
    (library,) = cache.iterdir()
    for path in (cache, library, cache.parent):
        mode = path.stat().st_mode
        path.chmod(0o777)
        assert main(compiled_arguments) == 2, path
        assert ("other users" if path == cache.parent else "only its owner") in capfd.readouterr().err
        path.chmod(mode)
    library.rename(cache.parent / "elsewhere.so")
    library.symlink_to(cache.parent / "elsewhere.so")
    assert main(compiled_arguments) == 2
    assert "only its owner can write" in capfd.readouterr().err


@pytest.mark.usefixtures("cache")
def test_key_depends_on_code_compiler_and_flags(tmp_path):
    code, arguments = write_file(tmp_path / "code.c", "/* DPDK 1.2.3 */\n"), ["cc", *compiled.FLAGS]
    key = compiled.key_of(code, arguments)
    assert compiled.version_of(code) == "1.2.3"
    assert key == compiled.key_of(code, arguments)
    assert key != compiled.key_of(code, [*arguments, "-g"])
    write_file(code, "/* DPDK 1.2.4 */\n")
    assert key != compiled.key_of(code, arguments)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ['a"b', "a(b", "a\\b", "a{b", "a;b"])
def test_spec_that_could_inject_code_is_not_compiled(loader, tmp_path, name):
    spec, code = write_file(tmp_path / "x.spec", FORWARD.read_text().replace("drop_for", name)), tmp_path / "x.c"
    assert name in spec.read_text()
    with pytest.raises(compiled.NotCompiledError):
        compiled.output_of([loader, "--spec", str(spec), "--generate", str(code)])
    assert not code.exists()
