"""Algorithms that the kernel does not list: an error before any transfer, and a line of the dry run."""

import argparse

import pytest

from acapella_capture.testbeds.local import sandbox
from acapella_capture.transfer import command, settings
from acapella_core.errors import UserError

CONFIG = "transfer: {{grid: {{algorithm: [reno, {}]}}}}\n"


@pytest.fixture
def transfer(tmp_path, monkeypatch):
    """Return a function that runs `acapella transfer` for an algorithm, on a kernel that lists reno and cubic."""
    listed, config = tmp_path / "listed", tmp_path / "config.yaml"
    listed.write_text("reno cubic\n")
    monkeypatch.setattr(settings, "ALGORITHMS", listed)
    monkeypatch.setattr(sandbox, "inside", lambda: False)
    monkeypatch.setattr(sandbox, "call", lambda argv: pytest.fail("the command started namespaces"))

    def run(algorithm: str, *options: str) -> None:
        config.write_text(CONFIG.format(algorithm))
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        command.run(parser.parse_args([f"{tmp_path}/one", "--config", f"{config}", *options]))

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
