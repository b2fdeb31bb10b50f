"""Fetches the capture of a sample, or its digest, into raw/ and writes its manifest."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from acapella_core import beneath, shards
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from .. import manifest as manifests
from ..plan.samples import PlannedSample
from ..plan.space import free_bytes
from ..programs.dpdk import Dpdk
from ..programs.tcpdump import Counts
from ..scan import Facts, scan_in_subprocess
from ..settings import Settings
from ..testbeds.base import Testbed
from ..testbeds.nic_settings import too_long_note
from .gather import COMPRESSED, delete_on_node, gather
from .node_digest import SUFFIX as DIGEST_SUFFIX
from .node_digest import CannotDigest, deliver_digest, size_on_node
from .preprocess import OUTPUT_SUFFIX, preprocess
from .sampling import ActiveSample, Failure
from .watchdog import MB, parse_clock

NO_COUNTS = Counts(captured=None, received=None, dropped_kernel=None, dropped_interface=None)


@dataclass(frozen=True)
class RecordedCapture:
    """A capture, on this machine or on the node that digested it: name, SHA-256, size, facts, further manifest keys."""

    file: str
    sha256: str
    bytes: int
    facts: Facts
    keys: dict[str, Any] = field(default_factory=dict)


def deliver(testbed: Testbed, settings: Settings, campaign: Path, sample: ActiveSample) -> dict[str, Any] | Failure:
    """Fetch a sample's capture or digest and return its manifest, or the reason for its failure.

    The capture of a failed sample is also fetched. If captures are digested on their nodes, it is deleted instead,
    because later samples need the disk space. A capture that is neither digested nor fetched is also deleted.
    """
    manifest, directory = None, shards.directory_of(campaign, "raw", sample.planned.name)
    with sample.recording_fault():
        beneath.make_directory(directory)
        if sample.capture is not None:
            node, file = sample.instance.name, sample.planned.file
            sample.history.notes += preprocess(testbed, node, file, settings.preprocess)
            recorded = obtain(testbed, settings, directory, sample)
            if sample.replayed is not None:
                sample.replay = testbed.deliver_replay(sample.planned.name, campaign / "raw")
            if recorded is not None:
                manifest = write_manifest(testbed, campaign, directory, sample, recorded)
    if manifest is None and sample.capture is not None:
        with contextlib.suppress(UserError):  # node unreachable: the first error is reported
            files = [f"{name}{ending}" for name in (sample.planned.file, f"{sample.planned.name}{DIGEST_SUFFIX}")
                     for ending in ("", COMPRESSED, OUTPUT_SUFFIX)]  # fmt: skip
            delete_on_node(testbed, sample.instance.name, *files)
    return manifest or sample.failure()


def obtain(testbed: Testbed, settings: Settings, raw: Path, sample: ActiveSample) -> RecordedCapture | None:
    """Fetch a sample's capture or digest. Return None for a failed sample. Raises UserError."""
    node, planned = sample.instance.name, sample.planned
    if settings.collect.digest_on == "node":
        if sample.fault:
            return None
        try:
            digest = deliver_digest(testbed, sample, raw, settings.collect)
        except CannotDigest as error:
            check_space(testbed, sample, raw, settings, error)
            sample.history.notes.append(f"{planned.name}: capture fetched, because its node cannot digest it: {error}")
        else:
            keys = {"node_digest": digest.manifest_key()}
            return RecordedCapture(planned.file, digest.sha256, digest.bytes, digest.facts, keys)
    path = gather(testbed, node, planned.file, raw, settings.collect)
    if sample.fault:
        return None
    facts = scan_truncated(path) if sample.ended_early else scan_in_subprocess(path)
    return RecordedCapture(path.name, sha256_of(path), path.stat().st_size, facts)


def check_space(testbed: Testbed, sample: ActiveSample, raw: Path, settings: Settings, reason: CannotDigest) -> None:
    """Raise UserError if a capture that its node cannot digest does not fit into the local free space."""
    try:
        needed = (
            size_on_node(testbed, sample.instance.name, sample.planned.file) + settings.collect.disk_reserve_mb * MB
        )
    except CannotDigest as error:
        raise UserError(f"neither digested nor fetched: {reason}; {error}") from error
    if (free := free_bytes(raw)) < needed:
        raise UserError(
            f"neither digested nor fetched: {reason}; fetching the capture needs {needed // MB} MB here, "
            f"{free // MB} MB is free"
        ) from reason


def write_manifest(
    testbed: Testbed, campaign: Path, directory: Path, sample: ActiveSample, recorded: RecordedCapture
) -> dict[str, Any]:
    """Write the manifest of a capture next to it, and return it.

    Raises UserError if the capture does not contain the frames that were counted.
    """
    planned, capture_settings, counts = sample.planned, sample.capture_settings, sample.counts or NO_COUNTS
    facts, path = recorded.facts, directory / recorded.file
    if facts.fault:
        raise UserError(facts.fault, where=path)
    unwritten = counts.received - counts.dropped_kernel - facts.frames if sample.ended_early and sample.counts else 0
    if unwritten > 0:
        sample.history.notes.append(f"{planned.name}: {unwritten} more frames were received but could not be written")
    elif sample.counts and facts.frames != counts.captured:
        raise UserError(f"{facts.frames} frames in the file, {counts.captured} frames captured", where=path)
    manifest = manifests.empty() | {
        "campaign": campaign.resolve().name,
        "run": planned.run,
        "sample": planned.name,
        "testbed": testbed.name,
        "site": planned.site.name,
        "instance": sample.mirror.instance,
        "port": planned.port.name,
        "direction": planned.direction,
        "method": capture_settings.method,
        "file": recorded.file,
        "sha256": recorded.sha256,
        "bytes": recorded.bytes,
        "snaplen": capture_settings.snaplen,
        "filter": capture_settings.filter,
        "requested": {
            "start_ns": sample.requested_ns,
            # a trial ends with the replay
            "end_ns": sample.requested_ns + round(capture_settings.sample_s * 1e9) if planned.trial is None else None,
        },
        "actual": {"start_ns": sample.start_ns, "end_ns": sample.end_ns},
        "frames_received": counts.received,
        "frames_captured": facts.frames,
        "dropped_kernel": counts.dropped_kernel,
        "dropped_interface": counts.dropped_interface,
        "mirror": asdict(sample.mirrored),
        "clock_resolution_ns": facts.clock_resolution_ns,
        "port_rate_bps": planned.port.rate_bps,
        "notes": testbed.notes(),
        **optional_keys(testbed, planned, sample, facts),
        **recorded.keys,
    }
    manifests.write(directory, manifest)
    return manifest


def scan_truncated(path: Path) -> Facts:
    """Return the facts of a capture that ended early, after removing an incomplete last record."""
    facts = scan_in_subprocess(path)
    if facts.fault and facts.whole_bytes is not None and path.suffix == ".pcap":
        os.truncate(path, facts.whole_bytes)
        facts = scan_in_subprocess(path)
    return facts


def p4_facts(sample: ActiveSample) -> dict[str, Any]:
    """Return manifest key `p4`: the program, its control file, and frames not sent, by reason."""
    control = sample.capture_settings.p4_control
    return {
        "program": Path(sample.capture_settings.p4_program).name,
        "program_sha256": sha256_of(Path(sample.capture_settings.p4_program)),
        "control_sha256": sha256_of(Path(control)) if control else None,
        "not_sent": name_reasons(sample.counts.preprocessed, Path(sample.capture_settings.p4_program))
        if sample.counts
        else None,
    }


def method_keys(sample: ActiveSample) -> dict[str, Any]:
    """Return manifest keys `p4` and `dpdk` if they apply."""
    keys = {"p4": p4_facts(sample)} if sample.capture_settings.method == "fpga" else {}
    if isinstance(sample.capture, Dpdk) and sample.capture.facts is not None:
        keys["dpdk"] = sample.capture.facts
    return keys


def name_reasons(not_sent: dict[str, int], program: Path) -> dict[str, int]:
    """Replace `reason-N` with the name in the .json file, if any, that p4/compile writes next to the program."""
    try:
        reasons = json.loads(program.with_suffix(".json").read_text(encoding="utf-8"))["reasons"]
        names = {f"reason-{int(number)}": str(name) for number, name in reasons.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return not_sent
    return {names.get(reason, reason): count for reason, count in not_sent.items()}


def nic_keys(testbed: Testbed, sample: ActiveSample, facts: Facts) -> tuple[dict[str, Any], list[str]]:
    """Return manifest keys `captured_at` and `nic` if they apply, and a note if frames were merged."""
    nic = testbed.nic_settings(sample.instance, sample.receiver)
    warning = too_long_note(nic, facts.longest_frame_bytes)
    host = {"captured_at": "host"} if testbed.ports_by_node(sample.planned.site.name) is not None else {}
    return host | ({"nic": nic.as_manifest()} if nic else {}), [f"{sample.planned.name}: {warning}"] if warning else []


def optional_keys(testbed: Testbed, planned: PlannedSample, sample: ActiveSample, facts: Facts) -> dict[str, Any]:
    """Return the optional manifest keys of a sample; `facts` describe its capture."""
    keys: dict[str, Any] = {"one_in": sample.capture_settings.one_in, "receiver": sample.receiver}
    if sample.capture_settings.one_in > 1 and sample.counts:
        keys |= {"one_in_by": sample.capture_settings.one_in_by, "sampled_out": sample.counts.sampled_out}
    keys |= method_keys(sample)
    if sample.traffic is not None:
        keys["traffic"] = sample.traffic
    nic, merged = nic_keys(testbed, sample, facts)
    keys |= nic
    notes = [*testbed.notes(), *sample.history.notes, *merged]
    if planned.trial is not None:
        keys |= {"environment": planned.environment, "trial": planned.trial, **sample.replay_keys()}
        notes.append(testbed.replay_plan().notes[planned.environment])
    if sample.replayed is not None:
        keys["replayed_frames"] = sample.replayed
        if (lost := sample.replayed - facts.frames) > 0:
            notes.append(f"{planned.name}: {lost} of {sample.replayed} replayed frames are not in the capture")
    if planned.cycle is not None:
        keys["cycle"] = planned.cycle
    if sample.congestion is not None:
        keys["congestion"] = sample.congestion
    if sample.watchdog is not None:
        keys["clock"] = sample.watchdog.clock or parse_clock("")
        keys["watchdog"] = sample.history.as_manifest()
    if sample.ended_early is not None:
        keys["ended_early"] = sample.ended_early
        notes.append(f"{planned.name} ended early: {sample.ended_early}")
    if (silent_s := sample.history.silent_s()) is not None:
        notes.append(f"{planned.name}: {sample.instance.name} sent no heartbeat for {silent_s} s")
    if sample.history.growing() is False:
        hint = f"; check filter {sample.capture_settings.filter!r}" if sample.capture_settings.filter else ""
        notes.append(f"{planned.name}: frames were received but the capture did not grow{hint}")
    return keys | {"notes": notes}
