"""Anonymize captures: keep headers without payload, and replace addresses with pseudonyms.

The native core processes the frames; this module handles the key and the files. docs/release.md lists what is kept of
each header.
"""

import contextlib
import os
import stat
from pathlib import Path

from . import _native, beneath
from .errors import UserError
from .files import atomic_path, locked_temporary, remove, remove_abandoned

KEY_BYTES = 32
MACS = ("replace", "blank")
ACCESS_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def require_aes() -> None:
    """Raise UserError if the core was built without OpenSSL, which computes AES."""
    if not _native.features()["aes"]:
        fix = "install libssl-dev and run make setup"
        raise UserError("pseudonyms need AES, but the core was built without OpenSSL", fix=fix)


def read_key(path: str | os.PathLike) -> bytes:
    """Return the 32 bytes of a key file. Raises UserError if it is unreadable or no key, or others can access it.

    No message contains any part of the key.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        fix = "create one with acapella anonymize --new-key FILE" if missing else None
        raise UserError(f"cannot read the key: {error.strerror}", where=path, fix=fix) from error
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UserError("not a regular file", where=path)
        if found.st_mode & ACCESS_BY_OTHERS:
            raise UserError("other users can access this key", where=path, fix=f"chmod 600 {path}")
        key = stream.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        size = "more" if len(key) > KEY_BYTES else str(len(key))
        raise UserError(f"expected a key of {KEY_BYTES} bytes, found {size}", where=path)
    return key


def make_key(path: str | os.PathLike) -> None:
    """Write a new random key to ``path``, readable by its owner only. The write is atomic.

    Raises UserError if the file exists: replacing its key would change all pseudonyms of later captures.
    """
    target = Path(path)
    try:
        with contextlib.ExitStack() as opened:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            directory = beneath.keep_open(opened, os.open(target.parent, flags))
            remove_abandoned(directory, target.name)
            descriptor, temporary = locked_temporary(directory, target.name)
            try:
                with open(descriptor, "wb", closefd=False) as stream:
                    stream.write(os.urandom(KEY_BYTES))
                os.fsync(descriptor)
                # Unlike a rename, a link does not replace an existing file.
                os.link(temporary, target.name, src_dir_fd=directory, dst_dir_fd=directory)
            finally:
                remove(temporary, directory)
                os.close(descriptor)
            os.fsync(directory)
    except FileExistsError as error:
        raise UserError("file exists", where=target, fix="a new key would change all pseudonyms") from error
    except OSError as error:
        raise UserError(f"cannot write the key: {error.strerror}", where=target) from error


def anonymize(  # noqa: PLR0913 - independent choices
    source: str, target: str | os.PathLike, key: bytes, *, macs: str = "replace", vendors=None, limits=None
) -> dict:
    """Anonymize the capture ``source`` (a path, or - for standard input) to the pcap ``target``.

    The write is atomic, and only the owner can read the file. Returns counts: frames, wire_bytes, captured_bytes,
    kept_bytes, cut_frames (less was kept than captured), empty_frames (nothing was kept), ts_not_kept (timestamps that
    do not fit in a pcap), link_type; the metadata of the file, as in a digest; and `replaced`, the addresses with their
    pseudonyms as bytes, which are private. ``vendors`` are those of tshark, or None. Raises UserError.
    """
    require_aes()
    if macs not in MACS:
        raise UserError(f"MAC addresses: {macs}", fix=f"one of {', '.join(MACS)}")
    if source != "-" and Path(target).exists() and Path(source).exists() and Path(source).samefile(target):
        raise UserError("input and output are the same file", where=target)
    with atomic_path(target) as temporary, temporary.open("wb") as stream:
        try:
            limits = limits or _native.DecompressionLimits()
            return _native.anonymize_file(source, stream.fileno(), key, macs, vendors, limits)
        except _native.WriteError as error:
            raise UserError(str(error), where=target, fix="free some space, or write elsewhere") from error
        except (_native.InputError, _native.AnonymizeError) as error:  # not an error of the target
            raise UserError(str(error)) from error


def pseudonyms_of(addresses: list[str], key: bytes) -> list[str]:
    """Return the pseudonyms of IPv4 and IPv6 addresses, as text. Raises ValueError for other strings."""
    return _native.pseudonyms_of(addresses, key)


def tunnel_pseudonyms_of(kind: str, ids: list[int], key: bytes) -> list[int]:
    """Return the pseudonyms of tunnel identifiers of a type in schemas/tunnels.tsv.

    Raises ValueError if the type is unknown or an identifier is wider than its field.
    """
    return _native.tunnel_pseudonyms_of(kind, ids, key)
