"""Transfers files from a node in parts: an interrupted transfer resumes, and each part's checksum is verified."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from acapella_core import beneath
from acapella_core.errors import UserError

from .remote import Remote
from .session import format_error

MB = 1_000_000
SUMS_S = 1800  # time for a node to read a large file
TRIES = 2  # attempts per part


@dataclass(frozen=True)
class Transfer:
    """File transfer from nodes: `download(node, path, local path)` copies one, in parts of `part_bytes`."""

    remote: Remote
    download: Callable[[str, str, Path], object]
    part_bytes: int

    def fetch(self, node: str, path: str, target: Path) -> None:
        """Copy a node's file to `target` and verify the checksum of the whole file.

        Parts received so far are kept in `.<name>.partial` in the target's directory. Raises UserError.
        """
        reply = self.remote.call(node, "checksums", path=path, length=self.part_bytes, duration_s=SUMS_S)
        partial = target.with_name(f".{target.name}.partial")
        try:
            with (
                beneath.parent(target, make=True) as directory,
                os.fdopen(beneath.open_file(partial, os.O_RDWR | os.O_CREAT), "r+b") as stream,
            ):
                intact = count_intact_parts(stream, reply["checksums"], self.part_bytes)
                local = beneath.inside(directory, target.parent) / f"{partial.name}.part"
                stream.truncate(min(intact * self.part_bytes, reply["size"]))
                for number in range(intact, len(reply["checksums"])):
                    stream.seek(number * self.part_bytes)
                    stream.write(self._part(node, path, number, reply["checksums"][number], local))
                    stream.flush()
                stream.seek(0)
                if hashlib.file_digest(stream, "sha256").hexdigest() != reply["sha256"]:
                    raise UserError(f"{path} was transferred with a wrong checksum", where=f"node {node}")
                os.fsync(stream.fileno())
                os.replace(partial.name, target.name, src_dir_fd=directory, dst_dir_fd=directory)
                os.fsync(directory)
        except OSError as error:
            raise UserError(f"cannot write: {error.strerror or error}", where=target) from error

    def _part(self, node: str, path: str, number: int, expected: str, local: Path) -> bytes:
        """Return the bytes of one part, downloaded to `local`. Raises UserError if its checksum does not match."""
        fault = ""
        local.unlink(missing_ok=True)  # the client would follow a symbolic link
        for _ in range(TRIES):
            remote_path = self.remote.call(
                node, "extract_part", path=path, offset=number * self.part_bytes, length=self.part_bytes
            )["path"]
            try:
                self.download(node, remote_path, local)
                data = local.read_bytes()
            except UserError:  # raised by host_keys, or unknown node
                raise
            except Exception as error:  # an exception of paramiko or of the client
                fault = format_error(error)
                continue
            finally:
                local.unlink(missing_ok=True)
                with contextlib.suppress(UserError):  # the node may be unreachable; the next part overwrites the file
                    self.remote.call(node, "remove", paths=[remote_path])
            if hashlib.sha256(data).hexdigest() == expected:
                return data
            fault = "wrong checksum"
        raise UserError(f"part {number + 1} of {path} could not be transferred: {fault}", where=f"node {node}")


def count_intact_parts(stream: BinaryIO, sums: list[str], length: int) -> int:
    """Return the number of intact parts at the beginning of a file."""
    for number, expected in enumerate(sums):
        if hashlib.sha256(stream.read(length)).hexdigest() != expected:
            return number
    return len(sums)
