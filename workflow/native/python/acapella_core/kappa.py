"""The sums that the consistency of trials is made of: the CHOIR paper, section 3, as exact integers.

A trial is one or more capture files of the same traffic. `compare` reads trials and compares pairs of them; the ratios
U, O, L, I and kappa are for the caller to divide. The native core reads, hashes and counts; this module checks what it
is given and says what was wrong in one line.
"""

import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import _native
from .errors import UserError
from .files import sha256_of, temporary_directory

KINDS = ("invariant", "tag", "regions", "frame")
TAGS = ("auto", "v1", "v2")


@dataclass(frozen=True)
class IdentityRule:
    """How a packet is known again.

    kind:
      invariant  the innermost IP header without TTL or hop limit, DSCP and ECN, and IPv4 header checksum, and what the
                 packet carries (without IP: what follows the innermost ethertype or 802.3 length, and it)
      tag        time, node and port in the 16-byte trailer that CHOIR appends; `tag` names the layouts that are taken
                 for one: v2 as the paper's version writes it, v1 as older ones did, auto for either
      regions    the bytes of `regions`, pairs of offset from the frame's start and length
      frame      every byte of the frame; does not survive a router
    l4_checksum: False leaves checksums of TCP, UDP, UDP-Lite, SCTP and ICMP out, which offload fills in late.
    """

    kind: str = "invariant"
    l4_checksum: bool = True
    regions: tuple[tuple[int, int], ...] = ()
    tag: str = "auto"


@dataclass(frozen=True)
class Selection:
    """Which frames take part; None means all.

    frames: for every file's path an array of uint64, the frames' numbers from 1 as tshark counts them.
    flow: (ip_proto, src, src_port, dst, dst_port) of the innermost headers, None in it for anything; or a sequence of
      such tuples, of which a frame has to fit one.
    from_ns, to_ns: from_ns <= time < to_ns, since 1970, or, if `relative`, since the trial's first packet that frames
      and flow leave.
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

    Returns {"trials": [...], "pairs": [...]} of integers, texts and None; times and their sums are in ns. A sha256 of a
    file costs as much as the rest, so it is None unless `hash_files`, or its trial has several files: there it decides
    between packets of equal time. The files of a trial are listed as they were given.

    memory_bytes bounds what is held in memory; beyond it private files in the directory `spool` (default: TMPDIR, else
    /tmp) hold the rest, and the result is the same. progress(done, total) gets bytes; `done` counts decompressed ones
    and may pass `total`.

    Raises UserError: no or unreadable files, the same file twice in a trial, too many windows, a full disk.
    """
    identity, selection = identity or IdentityRule(), selection or Selection()
    check_identity(identity)
    if not trials or not all(trials):
        raise UserError("a trial without a file")
    files = [files_of([str(path) for path in trial], hash_files) for trial in trials]
    total = sum(Path(path).stat().st_size for trial in files for path, _ in trial)
    options = {
        **words_of(identity, selection),
        "within_ns": list(within_ns),
        "windows": windows,
        "window_ns": window_ns,
        "memory_bytes": memory_bytes,
        "spool": str(temporary_directory(spool)),
        "limits": limits or _native.DecompressionLimits(),
        "progress": None if progress is None else lambda done: progress(done, total),
    }
    return compare_trials(files, list(pairs), options)


def words_of(identity: IdentityRule, selection: Selection) -> dict:
    """Both as the core's options. Raises UserError for a flow that is none."""
    return {
        "kind": identity.kind,
        "l4_checksum": identity.l4_checksum,
        "regions": list(identity.regions),
        "tag": identity.tag,
        "frames": None if selection.frames is None else dict(selection.frames),
        "flows": [flow_words(flow) for flow in flows_of(selection.flow)],
        "from_ns": selection.from_ns,
        "to_ns": selection.to_ns,
        "relative": selection.relative,
    }


def compare_trials(files: list[list[tuple[str, str]]], pairs: list[tuple[int, int]], options: dict) -> dict:
    """The core's answer. Raises UserError where it has none, with what to do where that is known."""
    try:
        return _native.compare_trials(files, pairs, options)
    except _native.SpoolError as error:
        fix = (
            f"temporary files are in {options['spool']}; make room there, or name another directory: --spool DIRECTORY"
        )
        raise UserError(str(error), fix=fix) from error
    except (_native.InputError, _native.TrialError) as error:
        raise UserError(str(error)) from error
    except _native.MemoryLimitError as error:
        raise UserError(str(error), fix="raise --memory", outside=True) from error
    except MemoryError as error:
        raise UserError("not enough memory for these trials", fix="lower --memory, so that files hold more") from error


def check_identity(identity: IdentityRule) -> None:
    """Raise UserError where the rule contradicts itself."""
    if identity.kind not in KINDS:
        raise UserError(f"identity: {identity.kind}", fix=f"one of {', '.join(KINDS)}")
    if identity.tag not in TAGS:
        raise UserError(f"tag layout: {identity.tag}", fix=f"one of {', '.join(TAGS)}")
    if (identity.kind == "regions") != bool(identity.regions):
        raise UserError("identity regions and byte regions go together", fix="give both or neither")
    for offset, length in identity.regions:
        if not (0 <= offset < 1 << 31 and 0 < length < 1 << 31):
            raise UserError(f"byte region {offset}:{length}", fix="an offset from 0 and a length from 1")


def files_of(paths: Sequence[str], hash_files: bool) -> list[tuple[str, str]]:
    """Paths with their sha256 where it is needed, else with an empty text. Raises UserError."""
    for path in paths:
        if not Path(path).is_file():
            raise UserError("is not a file" if Path(path).exists() else "no such file", where=path)
    if len(paths) == 1 and not hash_files:
        return [(paths[0], "")]
    files, seen = [], {}
    for path in paths:
        try:
            digest = sha256_of(path)
        except OSError as error:
            raise UserError(f"cannot read: {error.strerror}", where=path) from error
        if digest in seen:
            raise UserError(f"the same file as {seen[digest]} in one trial", where=path, fix="name it once")
        seen[digest] = path
        files.append((path, digest))
    return files


def flows_of(flow: tuple | Sequence[tuple] | None) -> list[tuple]:
    """One flow or several as a list."""
    if flow is None:
        return []
    return [flow] if len(flow) == 5 and not isinstance(flow[0], tuple | list) else list(flow)


def flow_words(flow: tuple) -> tuple:
    """A flow with its addresses as bytes in network order. Raises UserError."""
    proto, src, src_port, dst, dst_port = flow
    return proto, address_bytes(src), src_port, address_bytes(dst), dst_port


def address_bytes(address: str | None) -> bytes | None:
    """An IP address's 4 or 16 bytes. Raises UserError."""
    if address is None:
        return None
    try:
        return ipaddress.ip_address(address).packed
    except ValueError as error:
        raise UserError(f"flow: {error}") from error
