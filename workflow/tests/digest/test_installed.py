"""Tests that digests in a cache depend on the installed program."""

import shutil

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.batch_campaign import SAMPLES, digest_arguments, write_campaign
from acapella_testing.runs.workflow_run import ROOT

from acapella.campaign.layout import Campaign
from acapella.cli import batch
from acapella.cli import main as cli
from acapella.digest import installed
from acapella.snakefile import code


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Copy the directories of the program so that tests can edit their files."""
    program = tmp_path / "program"
    copies = [shutil.copytree(directory, program / directory.name) for directory in installed.directories()]
    monkeypatch.setattr(installed, "directories", lambda: tuple(copies))
    return program


def key() -> str:
    """Return what identifies the installed program in the keys of a cache, computed again."""
    installed.code_sha256.cache_clear()
    found = installed.versions("native")
    installed.code_sha256.cache_clear()
    return found


@pytest.mark.parametrize(
    "edited", ["digest/native.py", "common/vendors.py", "acapella_core/names.py", "schemas/tables/frames.yaml"]
)
def test_edited_program_has_a_different_key(copy, edited):
    before = key()
    assert key() == before
    path = copy / edited
    path.write_bytes(path.read_bytes() + b"\n# edited\n")
    assert key() != before


def test_different_core_and_pyarrow_have_a_different_key(tmp_path, monkeypatch):
    before = key()
    with monkeypatch.context() as changed:
        changed.setattr(installed._native, "__file__", str(write_file(tmp_path / "core.so", b"another core")))
        assert key() != before
    monkeypatch.setattr(installed, "version", lambda package: f"{package} 0.0")
    assert key() != before


def test_different_program_does_not_use_the_entries_of_this_one(tmp_path, capture, monkeypatch):
    words = ["digest", str(capture), "--engine", "native", "--cache", str(tmp_path / "cache")]
    for number, sha256 in enumerate(("a", "a", "b")):
        monkeypatch.setattr(installed, "code_sha256", lambda sha256=sha256: sha256)
        assert cli.main([*words, "-o", str(tmp_path / f"{number}.parquet")]) == 0
    first, same, other = ((tmp_path / f"{number}.parquet").resolve() for number in range(3))
    assert first == same != other


def test_compiled_modules_and_locks_of_an_editor_do_not_change_the_key(copy):
    before = key()
    write_file(copy / "digest" / "__pycache__" / "new.pyc", b"code")
    (copy / "digest" / ".#native.py").symlink_to("user@host.1:2")
    assert key() == before


def test_program_that_was_changed_during_a_run_stores_no_digest(tmp_path, capture, copy, monkeypatch, capsys):
    """--cache-key describes the program with which Snakemake started."""
    program = copy / "digest" / "native.py"
    planned = program.read_bytes()

    def is_cached(name: str) -> bool:
        installed.code_sha256.cache_clear()
        words = ["--engine", "native", "--cache", str(tmp_path / "cache"), "--cache-key", "planned"]
        assert cli.main(["digest", str(capture), *words, "-o", str(tmp_path / name)]) == 0
        return (tmp_path / name).is_symlink()

    key()
    monkeypatch.setenv(installed.DESCRIBED, code.installed_versions("native"))
    program.write_bytes(planned + b"# edited")
    assert not is_cached("edited.parquet") and not [*(tmp_path / "cache").glob("*/*")]
    assert "was changed during the run" in capsys.readouterr().err
    program.write_bytes(planned)
    assert is_cached("planned.parquet")
    program.write_bytes(planned + b"# edited")
    assert is_cached("found.parquet"), "digests by the planned program are not used"
    assert "os.environ[CACHE_PROGRAM] = installed_versions(" in (ROOT / "Snakefile").read_text()


def test_batch_identifies_the_program_that_it_has_loaded(tmp_path, copy, monkeypatch):
    """A change between two samples has no effect on the forks."""
    campaign, original = write_campaign(tmp_path / "results"), batch.run_in_fork
    monkeypatch.setenv(installed.DESCRIBED, key())

    def edit_and_run(*arguments):
        write_file(copy / "digest" / "new.py", b"")
        return original(*arguments)

    monkeypatch.setattr(batch, "run_in_fork", edit_and_run)
    assert cli.main(digest_arguments(campaign, f"--cache={tmp_path / 'cache'}", "--cache-key=planned")) == 0
    assert all(Campaign.at(campaign).acap(sample).is_symlink() for sample in SAMPLES)
    installed.code_sha256.cache_clear()
