"""Compute the sums of kappa (CHOIR paper, section 3) as exact integers.

A trial is one or more capture files of the same traffic. `compare` reads trials and compares pairs of them; the caller
computes the ratios U, O, L, I and kappa. The native core reads, hashes and counts; this module checks arguments and
converts errors to one line.
"""

import ipaddress
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import _native
from .errors import UserError
from .files import sha256_of, temporary_directory

KINDS = ("invariant", "tag", "regions", "frame")
TAGS = ("auto", "v1", "v2")


@dataclass(frozen=True)
class IdentityRule:
    """Rule for matching packets between trials.

    kind:
      invariant  the innermost IP header without TTL or hop limit, DSCP and ECN, and IPv4 header checksum, and its
                 payload (without IP: the innermost ethertype or 802.3 length, and its payload)
      tag        time, node and port in the 16-byte trailer of CHOIR; `tag` is the accepted layout: v2 of the paper's
                 version, v1 of older ones, auto for both
      regions    the byte ranges `regions`, pairs of offset from the start of the frame and length
      frame      every byte of the frame; cannot match packets across a router
    l4_checksum: False ignores checksums of TCP, UDP, UDP-Lite, SCTP and ICMP, which a NIC may compute after capture.
    """

    kind: str = "invariant"
    l4_checksum: bool = True
    regions: tuple[tuple[int, int], ...] = ()
    tag: str = "auto"


@dataclass(frozen=True)
class Selection:
    """Selection of the frames to compare; None selects all frames.

    frames: an array of uint64 for each file path: frame numbers from 1 as in tshark.
    flow: (ip_proto, src, src_port, dst, dst_port) of the innermost headers, None matches everything; or a sequence of
      such tuples, one of which must match.
    from_ns, to_ns: from_ns <= time < to_ns, since 1970, or with `relative` since the trial's first packet selected by
      frames and flow.
    """

    frames: Mapping[str, object] | None = None
    flow: tuple | Sequence[tuple] | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    relative: bool = False


def compare(  # noqa: PLR0913  (each is an independent choice of the caller)
    trials: Sequence[Sequence[str | os.PathLike]],
    *,
    pairs: Sequence[tuple[int, int]],
    identity: IdentityRule | None = None,
    selection: Selection | None = None,
    within_ns: Sequence[int] = (10,),
    windows: int | None = None,
    window_ns: int | None = None,
    memory_bytes: int = 2 << 30,
    spool: str | os.PathLike | None = None,
    limits: _native.DecompressionLimits | None = None,
    hash_files: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict:
    """Read `trials`, lists of files, and compare `pairs` of their indices.

    Returns {"trials": [...], "pairs": [...]} of integers, strings and None; times and their sums are in ns. A file's
    sha256 takes as long as everything else, so it is None unless `hash_files` is set or its trial has several files:
    then it determines the order of packets with equal timestamps. The result has the files of a trial in the given
    order.

    memory_bytes limits memory; beyond it temporary files in the directory `spool` (default: TMPDIR, else /tmp) are
    used, with the same result. progress(done, total) is called with bytes; `done` counts decompressed bytes and may
    exceed `total`.

    Raises UserError for a missing or unreadable file, a file that occurs twice in a trial, too many windows, or a full
    disk.
    """
    identity, selection = identity or IdentityRule(), selection or Selection()
    check_identity(identity)
    if not trials or not all(trials):
        raise UserError("a trial without a file")
    files = [files_of([str(path) for path in trial], hash_files) for trial in trials]
    total = sum(Path(path).stat().st_size for trial in files for path, _ in trial)
    options = {
        **core_options(identity, selection),
        "within_ns": list(within_ns),
        "windows": windows,
        "window_ns": window_ns,
        "memory_bytes": memory_bytes,
        "spool": str(temporary_directory(spool)),
        "limits": limits or _native.DecompressionLimits(),
        "progress": None if progress is None else lambda done: progress(done, total),
    }
    return compare_trials(files, list(pairs), options)


def core_options(identity: IdentityRule, selection: Selection) -> dict:
    """Return an identity rule and a selection as options of the core. Raises UserError for an invalid flow."""
    return {
        "kind": identity.kind,
        "l4_checksum": identity.l4_checksum,
        "regions": list(identity.regions),
        "tag": identity.tag,
        "frames": None if selection.frames is None else dict(selection.frames),
        "flows": [core_flow(flow) for flow in flows_of(selection.flow)],
        "from_ns": selection.from_ns,
        "to_ns": selection.to_ns,
        "relative": selection.relative,
    }


def align(  # noqa: PLR0913  (as compare)
    recordings: Sequence[tuple[str | os.PathLike, int]],
    trials: Sequence[Sequence[str | os.PathLike]],
    *,
    identity: IdentityRule | None = None,
    memory_bytes: int = 2 << 30,
    spool: str | os.PathLike | None = None,
    limits: _native.DecompressionLimits | None = None,
) -> dict:
    """Number the packets of trials by the frames of the recordings that were replayed.

    recordings: files, each with the number of loops in which it was replayed.

    Returns {"frames": frames of each recording, "replayed": number of keys, "trials": [(keys, timestamps), ...]}, with
    arrays of uint32 and int64 (ns), in order of time. Frame f of loop l of a recording has the key
    ``first + l * frames + f``, where ``first`` is the number of packets in all loops of the recordings before it.
    Packets that were not replayed have keys starting at "replayed", equal in all trials. Equal packets are matched by
    occurrence number.

    Raises UserError as `compare`, and if a frame of a recording cannot be matched.
    """
    identity = identity or IdentityRule()
    check_identity(identity)
    files = [files_of([str(path) for path in trial], hash_files=False) for trial in trials]
    replayed = [(files_of([str(path)], hash_files=False)[0][0], loops) for path, loops in recordings]
    options = {
        **core_options(identity, Selection()),
        "memory_bytes": memory_bytes,
        "spool": str(temporary_directory(spool)),
        "limits": limits or _native.DecompressionLimits(),
        "progress": None,
    }
    with user_errors(options["spool"]):
        return _native.align_trials(replayed, files, options)


def compare_numbered(
    a: tuple,
    b: tuple,
    *,
    within_ns: Sequence[int] = (10,),
    memory_bytes: int = 2 << 30,
    spool: str | os.PathLike | None = None,
) -> dict:
    """Compare two trials (keys, timestamps), as returned by `align`, in any order; no key occurs twice in a trial.

    Returns a pair as `compare` does, without windows. Raises UserError.
    """
    options = {
        "within_ns": list(within_ns),
        "memory_bytes": memory_bytes,
        "spool": str(temporary_directory(spool)),
    }
    with user_errors(options["spool"]):
        return _native.compare_numbered_trials(a, b, options)


def compare_trials(files: list[list[tuple[str, str]]], pairs: list[tuple[int, int]], options: dict) -> dict:
    """Return the result of the core. Raises UserError with a remedy if there is one."""
    with user_errors(options["spool"]):
        return _native.compare_trials(files, pairs, options)


@contextmanager
def user_errors(spool: str) -> Iterator[None]:
    """Convert errors of the core to UserError, with a remedy if there is one."""
    try:
        yield
    except _native.SpoolError as error:
        fix = f"temporary files are in {spool}; free space there, or use another directory: --spool DIRECTORY"
        raise UserError(str(error), fix=fix) from error
    except (_native.InputError, _native.TrialError) as error:
        raise UserError(str(error)) from error
    except _native.MemoryLimitError as error:
        raise UserError(str(error), fix="raise --memory", outside=True) from error
    except MemoryError as error:
        raise UserError(
            "not enough memory for these trials", fix="lower --memory, so that more data is kept in files"
        ) from error


def check_identity(identity: IdentityRule) -> None:
    """Raise UserError if the rule is contradictory."""
    if identity.kind not in KINDS:
        raise UserError(f"identity: {identity.kind}", fix=f"one of {', '.join(KINDS)}")
    if identity.tag not in TAGS:
        raise UserError(f"tag layout: {identity.tag}", fix=f"one of {', '.join(TAGS)}")
    if (identity.kind == "regions") != bool(identity.regions):
        raise UserError("identity regions requires byte regions, and vice versa", fix="specify both or neither")
    for offset, length in identity.regions:
        if not (0 <= offset < 1 << 31 and 0 < length < 1 << 31):
            raise UserError(f"byte region {offset}:{length}", fix="an offset from 0 and a length from 1")


def files_of(paths: Sequence[str], hash_files: bool) -> list[tuple[str, str]]:
    """Return paths with their SHA-256, or with an empty string if it is not needed. Raises UserError."""
    for path in paths:
        if not Path(path).is_file():
            raise UserError("not a file" if Path(path).exists() else "no such file", where=path)
    if len(paths) == 1 and not hash_files:
        return [(paths[0], "")]
    files, seen = [], {}
    for path in paths:
        try:
            digest = sha256_of(path)
        except OSError as error:
            raise UserError(f"cannot read: {error.strerror}", where=path) from error
        if digest in seen:
            raise UserError(f"the same file as {seen[digest]} in one trial", where=path, fix="specify it once")
        seen[digest] = path
        files.append((path, digest))
    return files


def flows_of(flow: tuple | Sequence[tuple] | None) -> list[tuple]:
    """Return one or several flows as a list."""
    if flow is None:
        return []
    return [flow] if len(flow) == 5 and not isinstance(flow[0], tuple | list) else list(flow)


def core_flow(flow: tuple) -> tuple:
    """Return a flow with its addresses as bytes in network order. Raises UserError."""
    proto, src, src_port, dst, dst_port = flow
    return proto, address_bytes(src), src_port, address_bytes(dst), dst_port


def address_bytes(address: str | None) -> bytes | None:
    """Return the 4 or 16 bytes of an IP address. Raises UserError."""
    if address is None:
        return None
    try:
        return ipaddress.ip_address(address).packed
    except ValueError as error:
        raise UserError(f"flow: {error}") from error
