"""Transfers files from a node in parts: an interrupted transfer resumes, and each part's checksum is verified."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from acapella_core import beneath
from acapella_core.errors import UserError

from .remote import Remote
from .session import format_error

MB = 1_000_000
SUMS_S = 1800  # time for a node to read a large file
TRIES = 2  # attempts per part
RESERVE_MB = 64  # local space that is kept free for manifests and results


@dataclass(frozen=True)
class Transfer:
    """File transfer from nodes, in parts of `part_bytes`: `download(node, path, length)` returns the bytes of a part.

    Nodes are untrusted: their replies do not determine how much is written to disk or read into memory.
    """

    remote: Remote
    download: Callable[[str, str, int], bytes]
    part_bytes: int

    def fetch(self, node: str, path: str, target: Path) -> None:
        """Copy a node's file to `target` and verify the checksum of the whole file.

        Parts received so far are kept in `.<name>.partial` in the target's directory. Raises UserError.
        """
        reply = self.remote.call(node, "checksums", path=path, length=self.part_bytes, duration_s=SUMS_S)
        size, sums = reply["size"], reply["checksums"]
        if len(sums) != -(-size // self.part_bytes):
            raise UserError(f"{len(sums)} checksums of {path}, which has {size} bytes", where=f"node {node}")
        partial = target.with_name(f".{target.name}.partial")
        try:
            with (
                beneath.parent(target, make=True) as directory,
                os.fdopen(beneath.open_file(partial, os.O_RDWR | os.O_CREAT), "r+b") as stream,
            ):
                intact = count_intact_parts(stream, sums, self.part_bytes)
                stream.truncate(min(intact * self.part_bytes, size))
                check_space(stream, size, target)
                for number in range(intact, len(sums)):
                    offset = number * self.part_bytes
                    stream.seek(offset)
                    stream.write(self._part(node, path, number, sums[number], min(self.part_bytes, size - offset)))
                    stream.flush()
                stream.seek(0)
                if hashlib.file_digest(stream, "sha256").hexdigest() != reply["sha256"]:
                    raise UserError(f"{path} was transferred with a wrong checksum", where=f"node {node}")
                os.fsync(stream.fileno())
                os.replace(partial.name, target.name, src_dir_fd=directory, dst_dir_fd=directory)
                os.fsync(directory)
        except OSError as error:
            raise UserError(f"cannot write: {error.strerror or error}", where=target) from error

    def _part(self, node: str, path: str, number: int, expected: str, length: int) -> bytes:
        """Return the bytes of one part of this length. Raises UserError if its checksum does not match."""
        fault = ""
        for _ in range(TRIES):
            remote_path = self.remote.call(
                node, "extract_part", path=path, offset=number * self.part_bytes, length=length
            )["path"]
            try:
                data = self.download(node, remote_path, length)
            except UserError:  # raised by host_keys, or unknown node
                raise
            except Exception as error:  # an exception of paramiko or of the client
                fault = format_error(error)
                continue
            finally:
                with contextlib.suppress(UserError):  # the node may be unreachable; the next part overwrites the file
                    self.remote.call(node, "remove", paths=[remote_path])
            if hashlib.sha256(data).hexdigest() == expected:
                return data
            fault = "wrong checksum"
        raise UserError(f"part {number + 1} of {path} could not be transferred: {fault}", where=f"node {node}")


def read_part(node: Any, path: str, length: int) -> bytes:
    """Return the first `length` bytes of a file on a node, given as FABRIC's object.

    FABRIC's client itself would copy a file of any size to the disk. Raises an exception of paramiko or of the client.
    """
    try:
        _, client = node._get_ssh_connection()
        with client.open_sftp() as sftp, sftp.open(path, "rb") as stream:
            stream._prefetch_thread = suppress_lost_connection(stream._prefetch_thread)
            stream.prefetch(length)
            return stream.read(length)
    except Exception:
        node.close_ssh()  # the next attempt connects again
        raise


def suppress_lost_connection(request: Callable[..., None]) -> Callable[..., None]:
    """Return a function that requests the next blocks in a thread of paramiko, without the error of a lost connection.

    The reader raises this error; if the thread also raised it, Python would print a traceback.
    """

    def requests(*arguments: Any) -> None:
        with contextlib.suppress(OSError, EOFError):
            request(*arguments)

    return requests


def check_space(stream: BinaryIO, size: int, target: Path) -> None:
    """Raise UserError if there is not enough space for the rest of a file of `size` bytes after the content of
    `stream`.
    """
    system = os.fstatvfs(stream.fileno())
    free, needed = system.f_bavail * system.f_frsize, size - os.fstat(stream.fileno()).st_size
    if needed > 0 and needed + RESERVE_MB * MB > free:
        text = f"needs {needed // MB} MB, {free // MB} MB is free, of which {RESERVE_MB} MB is reserved"
        raise UserError(text, where=target)


def count_intact_parts(stream: BinaryIO, sums: list[str], length: int) -> int:
    """Return the number of intact parts at the beginning of a file."""
    for number, expected in enumerate(sums):
        if hashlib.sha256(stream.read(length)).hexdigest() != expected:
            return number
    return len(sums)
