"""A second checkout of the workflow, run with a different user, host name, locale, time zone and hash seed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from acapella_testing.new_files import new_directory
from acapella_testing.source_tree import ROOT, working_tree

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
    for name in working_tree():
        if name.startswith(REQUIRED) and "/tests/" not in name:
            shutil.copyfile(ROOT / name, new_directory((directory / name).parent) / Path(name).name)
    return directory


def turkish(directory: Path) -> dict[str, str]:
    """Compile the locale tr_TR, in which the lower case of I is not i; return the variables that select it."""
    directory.mkdir()
    command = ["localedef", "--quiet", "-i", "tr_TR", "-f", "UTF-8", str(directory / "tr_TR.UTF-8")]
    subprocess.run(command, check=True, capture_output=True)
    return {"LOCPATH": str(directory), "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}


def run_elsewhere(checkout: Path, place: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Run the Snakefile of ``checkout`` in ``place`` as another user on one CPU; return both output streams as one."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(checkout / "Snakefile"), "--directory", str(place)]
    sources = f"{checkout / 'workflow/src'}:{checkout / 'capture/src'}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "USER": "guestuser", "PYTHONPATH": sources}
    one_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    return subprocess.run(
        [*USER_NAMESPACE, *HOST_NAME, *WITHOUT_CAPABILITIES, *one_cpu, *command, *arguments],
        cwd=place, env=environment | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
