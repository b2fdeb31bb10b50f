"""Algorithms that the kernel does not list: an error before any transfer, and a line of the dry run."""

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.in_process import parsed

from acapella_capture.testbeds.local import sandbox
from acapella_capture.transfer import command, settings
from acapella_core.errors import UserError


@pytest.fixture
def transfer(tmp_path, monkeypatch):
    """Return a function that runs `acapella transfer` for an algorithm, on a kernel that lists reno and cubic."""
    monkeypatch.setattr(settings, "ALGORITHMS", write_file(tmp_path / "listed", "reno cubic\n"))
    monkeypatch.setattr(sandbox, "inside", lambda: False)
    monkeypatch.setattr(sandbox, "call", lambda argv: pytest.fail("the command started namespaces"))

    def run(algorithm: str, *options: str) -> None:
        config = write_file(tmp_path / "config.yaml", f"transfer: {{grid: {{algorithm: [reno, {algorithm}]}}}}\n")
        command.run(parsed(command, tmp_path / "one", "--config", config, *options))

    return run


@pytest.mark.parametrize(("name", "hint"), [("cubik", "did you mean cubic? (if not: modprobe tcp_cubik)"), ("bbr", "")])
def test_algorithm_that_the_kernel_does_not_list_is_an_error_before_any_transfer(transfer, tmp_path, name, hint):
    with pytest.raises(UserError) as caught:
        transfer(name)
    expected = f"transfer.grid.algorithm: no congestion control {name}; the kernel lists reno, cubic; "
    assert f"{caught.value}" == expected + (hint or f"modprobe tcp_{name}")
    assert not (tmp_path / "one" / "transfers").exists()


def test_dry_run_names_the_algorithm_that_the_kernel_does_not_list(transfer, capsys):
    transfer("cubik", "--dry-run")
    assert "\nmissing: transfer.grid.algorithm: no congestion control cubik; " in capsys.readouterr().out
    transfer("cubic", "--dry-run")
    assert "missing: " not in capsys.readouterr().out


def test_dry_run_needs_no_list_of_algorithms(transfer, tmp_path, capsys):
    (tmp_path / "listed").unlink()
    transfer("cubik", "--dry-run")
    assert "missing: " not in capsys.readouterr().out
