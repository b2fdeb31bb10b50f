"""The step of a node's build that configures acapella-dpdk-capture."""

import os
import tarfile
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run

from acapella_capture.testbeds.fabric.nodes.build import CONFIGURE


def configure(directory: Path, hardening: str) -> tuple[int, Path]:
    """Run the step with an archive whose hardening.mk has this text; return the exit status and meson's arguments."""
    with tarfile.open(directory / "build.tar.gz", "w:gz") as archive:
        archive.add(write_file(directory / "hardening.mk", hardening), "workflow/setup/hardening.mk")
    log = executable(directory / "meson", '#!/bin/sh\nprintf "%s\\n" "$@" > "$MESON_LOG"\n').with_suffix(".log")
    environment = os.environ | {"PATH": f"{directory}:{os.environ['PATH']}", "MESON_LOG": str(log)}
    return run("sh", "-c", CONFIGURE, "sh", directory / "build", env=environment).returncode, log


def test_program_is_configured_with_the_flags_of_the_archive(tmp_path):
    status, log = configure(tmp_path, "HARDENED := -fstack-protector-strong -O2\nHARDENED_LINK := -Wl,-z,now\n")
    assert status == 0
    assert log.read_text().splitlines() == [
        "setup", "build", "-Dc_args=-fstack-protector-strong -O2", "-Dc_link_args=-Wl,-z,now",
    ]  # fmt: skip


@pytest.mark.parametrize("hardening", ["$(error no flags)\n", "HARDENED := a\nno rule\n"])
def test_program_is_never_built_without_the_flags(tmp_path, hardening):
    status, log = configure(tmp_path, hardening)
    assert status != 0 and not log.exists()
