"""Another user of the machine who tries to read a file and to use a listening program."""

import shutil
import subprocess
from pathlib import Path

from acapella_testing.requirements import require, require_root

UID = 65534
SCRIPT = """\
import socket, sys
try:
    print(open(sys.argv[1]).read())
except OSError as error:
    print(error.errno)
link = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
link.sendall(sys.argv[3].encode())
print(link.makefile().read())
"""


def try_access(path: Path, port: int, line: str) -> tuple[str, str]:
    """Return what another user reads in a file, or the number of the error, and the answer to a line on a port."""
    python = shutil.which("python3", path="/usr/bin:/bin")  # a Python of the user may be in a private directory
    require_root("only root can run a program as another user")
    require(python, "Debian's python3 is not installed")
    argv = [python, "-c", SCRIPT, str(path), str(port), line]
    read, answer = subprocess.run(argv, user=UID, capture_output=True, text=True, check=True).stdout.split("\n", 1)
    return read, answer
