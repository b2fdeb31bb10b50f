"""A second checkout of the workflow, run by another user, with another host name, locale, time zone and hash seed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from acapella_testing.source_tree import ROOT

REQUIRED = ("Snakefile", "rules/", "profiles/", "config/", "schemas/", "workflow/", "capture/src/")
HOST, USER = "another-host", 65534  # nobody
UTS = ["unshare", "--uts", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh"]


def check_out(directory: Path) -> Path:
    """Copy the workflow as it is in the working tree, without tests, readable for all users; return the directory."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name.startswith(REQUIRED) and "/tests/" not in name and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, directory / name)
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory


def turkish(directory: Path) -> dict[str, str]:
    """Compile the locale tr_TR, in which lower case of I is not i; return the variables that select it."""
    directory.mkdir()
    command = ["localedef", "--quiet", "-i", "tr_TR", "-f", "UTF-8", str(directory / "tr_TR.UTF-8")]
    subprocess.run(command, check=True, capture_output=True)
    return {"LOCPATH": str(directory), "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}


def run_elsewhere(checkout: Path, place: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Snakemake of ``checkout`` in ``place`` as user nobody on one CPU; return both output streams as one."""
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(checkout / "Snakefile"), "--directory", str(place)]
    sources = f"{checkout / 'workflow/src'}:{checkout / 'capture/src'}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "USER": "nobody", "PYTHONPATH": sources}
    first_cpu = str(min(os.sched_getaffinity(0)))
    return subprocess.run(
        [*UTS, "taskset", "--cpu-list", first_cpu, *user, *command, *arguments],
        cwd=place,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
