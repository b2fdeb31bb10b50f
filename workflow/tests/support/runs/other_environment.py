"""A second checkout of the workflow, run with a different user, host name, locale, time zone and hash seed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from acapella_testing.source_tree import ROOT

REQUIRED = ("Snakefile", "rules/", "profiles/", "config/", "schemas/", "workflow/", "capture/src/")
HOST, USER = "another-host", 4321
# A user namespace: for programs, the user is USER. The files belong to the user who runs the tests, so that the Python
# of a private directory can be used.
USER_NAMESPACE = ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "--keep-caps", "--uts"]
HOST_NAME = ["sh", "-c", f'hostname {HOST} && exec "$@"', "sh"]
WITHOUT_CAPABILITIES = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]


def why_unavailable() -> str | None:
    """Return the reason why the kernel permits no other user and host name; None if it does."""
    tried = subprocess.run([*USER_NAMESPACE, *HOST_NAME, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no user namespace: {tried.stderr.strip()}"


def check_out(directory: Path) -> Path:
    """Copy the workflow as it is in the working tree, without tests; return the directory."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name.startswith(REQUIRED) and "/tests/" not in name and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, directory / name)
    return directory


def turkish(directory: Path) -> dict[str, str]:
    """Compile the locale tr_TR, in which lower case of I is not i; return the variables that select it."""
    directory.mkdir()
    command = ["localedef", "--quiet", "-i", "tr_TR", "-f", "UTF-8", str(directory / "tr_TR.UTF-8")]
    subprocess.run(command, check=True, capture_output=True)
    return {"LOCPATH": str(directory), "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}


def run_elsewhere(checkout: Path, place: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Run Snakemake of ``checkout`` in ``place`` as another user on one CPU; return both output streams as one."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(checkout / "Snakefile"), "--directory", str(place)]
    sources = f"{checkout / 'workflow/src'}:{checkout / 'capture/src'}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "USER": "guestuser", "PYTHONPATH": sources}
    one_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    return subprocess.run(
        [*USER_NAMESPACE, *HOST_NAME, *WITHOUT_CAPABILITIES, *one_cpu, *command, *arguments],
        cwd=place,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
