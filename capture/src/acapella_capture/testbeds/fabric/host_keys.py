"""SSH host keys of listening nodes and of FABRIC's bastion hosts: trust on first use within a slice.

FABRIC publishes no host keys, and its client accepts any key at each connection. The keys are kept next to the user's
token file, so that they are also compared by later collections that reuse the slice. Several bastion hosts share one
name for load balancing (fabric-testbed/jupyter-examples, issue 184), so their keys are stored by address.
"""

import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Any, TextIO

from acapella_core.errors import UserError
from acapella_core.files import PRIVATE

from .login import LoginError

FILE = "acapella_known_hosts"
BASTION = "@bastion"  # followed by the address, instead of a node name; node names have no @
LINE = re.compile(r"\S+ \S+ [A-Za-z0-9+/]+={0,2}\n")
OTHER_USERS = 0o077


class HostKeyChangedError(LoginError):
    """A host presents a different host key than at the first connection within its slice."""


class HostKeys:
    """The file of host keys: lines of slice/node, key type and key. Several threads and processes may use it."""

    def __init__(self, file: Path):
        self._file = file
        self._lock = threading.Lock()

    def watch(self, node: Any, slice_id: str) -> Any:
        """Make FABRIC's node object check the host keys of node and bastion host at each connection; return the node.

        The node then raises HostKeyChangedError, and UserError if the file cannot be read or written.
        """
        connect, host = node._get_ssh_connection, f"{slice_id}/{node.get_name()}"

        def checked(**options: Any) -> tuple[Any, Any]:
            bastion, client = connect(**options)
            try:
                transport = bastion.get_transport()
                address = transport.getpeername()[0]
                self.check(f"{slice_id}/{BASTION}/{address}", transport.get_remote_server_key())
                self.check(host, client.get_transport().get_remote_server_key())
            except UserError:
                node.close_ssh()
                raise
            return bastion, client

        node._get_ssh_connection = checked
        return node

    def check(self, entry: str, key: Any) -> None:
        """Store the key of a new host. Raises HostKeyChangedError if the key of a known host has changed."""
        presented_key = f"{key.get_name()} {key.get_base64()}"
        try:
            with self._lock, open(self._file, "a+", encoding="ascii", opener=private) as lines:
                fcntl.flock(lines, fcntl.LOCK_EX)  # released when the file is closed
                lines.seek(0)
                keys = self._known(lines)
                if entry not in keys:
                    lines.write(f"{entry} {presented_key}\n")
                    lines.flush()
                    os.fsync(lines.fileno())
                    return
        except (OSError, ValueError) as error:
            raise UserError(f"cannot update the file of host keys: {error}", where=self._file) from error
        if keys[entry] != presented_key:
            host = entry.partition("/")[2]
            raise HostKeyChangedError(
                f"SSH host key changed to {presented_key}; connection closed",
                where="bastion host" if host.startswith(BASTION) else f"node {host}",
                fix=f"delete the slice, or remove {entry} from {self._file} if you know why the key changed",
            )

    def _known(self, lines: TextIO) -> dict[str, str]:
        """Return the keys by host. Raises UserError if others may access the file, or a line is damaged.

        If a damaged line were ignored, its node would count as new, and any key would be accepted.
        """
        status = os.fstat(lines.fileno())
        if status.st_uid != os.geteuid() or status.st_mode & OTHER_USERS:
            raise UserError("accessible to other users", where=self._file, fix=f"chmod 600 {self._file}")
        keys = {}
        for number, line in enumerate(lines, 1):
            if not LINE.fullmatch(line):
                fix = "remove the line if you know the node's key, or delete the slice"
                raise UserError("not a host key", where=f"{self._file} line {number}", fix=fix)
            host, key = line.rstrip("\n").split(" ", 1)
            keys[host] = key
        return keys


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may access and that is not a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
