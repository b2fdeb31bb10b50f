"""Uses FABRIC's client of the Python from which the virtual environment was created, as on FABRIC's JupyterHub.

    .venv/bin/python workflow/setup/hub_client.py capture/requirements-fabric.lock

Prints one line. Using this client saves more than 200 MB in a small home directory. Exit status:

0   a .pth file appends the packages of that Python to those of the virtual environment, which take precedence
1   that Python has no client of the version in the lock file, or the client does not work with the packages of the
    virtual environment; there is no .pth file
"""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

CLIENT = "fabrictestbed-extensions"
PTH = "acapella-fabric-client.pth"
FIND = f"""
import json, os, site
from importlib.metadata import PackageNotFoundError, version
try:
    found = version({CLIENT!r})
except PackageNotFoundError:
    found = None
directories = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
print(json.dumps([found, [path for path in directories if os.path.isdir(path)]]))
"""
# Run with the .pth file: checks the requirements of the client, as pip does, and imports it.
CHECK = f"""
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from packaging.requirements import Requirement

checked = set()


def check(package):
    checked.add(package)
    for line in requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({{"extra": ""}}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            sys.exit(f"{{requirement.name}} is missing")
        if not requirement.specifier.contains(found, prereleases=True):
            sys.exit(f"{{package}} needs {{requirement}}, not {{found}}")
        if requirement.name.lower() not in checked:
            check(requirement.name.lower())


check({CLIENT!r})
from fabrictestbed_extensions.fablib.fablib import FablibManager
"""
CHECK_S = 300


def needed_version(lock: Path) -> str:
    """Return the version of the client in a lock file."""
    return re.search(rf"^{CLIENT}==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)[1]


def problem(base: str, needed: str, pth: Path) -> str | None:
    """Write the .pth file; return why the client of a Python cannot be used, or None."""
    ended = subprocess.run([base, "-c", FIND], capture_output=True, text=True, check=False, timeout=CHECK_S)
    if ended.returncode:
        return f"{base} does not run"
    found, directories = json.loads(ended.stdout)
    if found != needed:
        return f"{base} has {f'version {found}' if found else 'none'}, version {needed} is needed"
    pth.write_text("".join(f"{path}\n" for path in directories), encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=False, timeout=CHECK_S)
    lines = ended.stderr.strip().splitlines()
    return (lines[-1] if lines else "the check failed") if ended.returncode else None


def main(lock: str) -> int:
    """Print whether the client of the base Python is used; return the exit status."""
    pth, base = Path(sysconfig.get_path("purelib")) / PTH, sys._base_executable
    pth.unlink(missing_ok=True)
    needed = needed_version(Path(lock))
    reason: str | None = "the check was interrupted"
    try:
        reason = problem(base, needed, pth)
    except subprocess.TimeoutExpired:
        reason = f"the check took more than {CHECK_S} s"
    finally:
        if reason:
            pth.unlink(missing_ok=True)
    if reason:
        print(f"setup: FABRIC's client of this machine is not used: {reason}")
        return 1
    print(f"setup: FABRIC's client {needed} of {base} is used")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
