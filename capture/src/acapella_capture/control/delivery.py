"""From a sample that was taken to its capture and manifest in raw/."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from .. import manifest as manifests
from ..plan.samples import Shot
from ..programs.tcpdump import Counts
from ..scan import Facts, scan_apart
from ..settings import Settings
from ..testbeds.base import Testbed
from .gather import gather
from .preprocess import preprocessed
from .sampling import Failure, Taking
from .watchdog import clock_of

UNCOUNTED = Counts(captured=None, received=None, dropped_kernel=None, dropped_interface=None)


def delivered(testbed: Testbed, settings: Settings, campaign: Path, taking: Taking) -> dict[str, Any] | Failure:
    """The manifest of a sample that is in raw/ now, or why it failed; what there is of its capture is fetched anyway.

    Left where it is, it would take the node's memory from the samples after it.
    """
    manifest = None
    with taking.noted():
        if taking.capture is not None:
            node, file = taking.instance.name, taking.shot.file
            taking.watch.notes += preprocessed(testbed, node, file, settings.preprocess)
            path = gather(testbed, node, file, campaign / "raw", settings.collect)
            if not taking.fault:
                manifest = describe(testbed, campaign, taking, path)
    return manifest or taking.failure()


def describe(testbed: Testbed, campaign: Path, taking: Taking, path: Path) -> dict[str, Any]:
    """Read a fetched capture and write its manifest. Raises UserError where it holds other than what was counted."""
    shot, how, counts = taking.shot, taking.how, taking.counts or UNCOUNTED
    facts = whole(path) if taking.ended else scan_apart(path)
    if facts.fault:
        raise UserError(facts.fault, where=path)
    unwritten = counts.received - counts.dropped_kernel - facts.frames if taking.ended and taking.counts else 0
    if unwritten > 0:
        taking.watch.notes.append(f"{shot.sample}: {unwritten} frames more were taken and could not be written")
    elif taking.counts and facts.frames != counts.captured:
        raise UserError(f"{facts.frames} read, {counts.captured} frames captured", where=path)
    manifest = manifests.empty() | {
        "campaign": campaign.resolve().name,
        "run": shot.run,
        "sample": shot.sample,
        "testbed": testbed.name,
        "site": shot.site.name,
        "instance": taking.mirror.instance,
        "port": shot.port.name,
        "direction": shot.direction,
        "method": how.method,
        "file": path.name,
        "sha256": sha256_of(path),
        "bytes": path.stat().st_size,
        "snaplen": how.snaplen,
        "filter": how.filter,
        "requested": {
            "start_ns": taking.requested_ns,
            # a trial ends when the replay does
            "end_ns": taking.requested_ns + round(how.sample_s * 1e9) if shot.trial is None else None,
        },
        "actual": {"start_ns": taking.start_ns, "end_ns": taking.end_ns},
        "frames_received": counts.received,
        "frames_captured": facts.frames,
        "dropped_kernel": counts.dropped_kernel,
        "dropped_interface": counts.dropped_interface,
        "mirror": asdict(taking.mirrored),
        "clock_resolution_ns": facts.clock_resolution_ns,
        "port_rate_bps": shot.port.rate_bps,
        "notes": testbed.notes(),
        **extra(testbed, shot, taking, facts.frames),
    }
    manifests.write(campaign / "raw", manifest)
    return manifest


def whole(path: Path) -> Facts:
    """What a capture holds that ended early, its last record cut off where it is not whole."""
    facts = scan_apart(path)
    if facts.fault and facts.whole_bytes is not None and path.suffix == ".pcap":
        os.truncate(path, facts.whole_bytes)
        facts = scan_apart(path)
    return facts


def program_facts(taking: Taking) -> dict[str, Any]:
    """Which P4 program the frames went through, and why it did not send some of them."""
    control = taking.how.p4_control
    return {
        "program": Path(taking.how.p4_program).name,
        "program_sha256": sha256_of(Path(taking.how.p4_program)),
        "control_sha256": sha256_of(Path(control)) if control else None,
        "not_sent": named(taking.counts.preprocessed, Path(taking.how.p4_program)) if taking.counts else None,
    }


def named(not_sent: dict[str, int], program: Path) -> dict[str, int]:
    """``reason-1`` by the name in the .json that p4/compile puts beside a program, where the control file gave none."""
    try:
        reasons = json.loads(program.with_suffix(".json").read_text(encoding="utf-8"))["reasons"]
        names = {f"reason-{int(number)}": str(name) for number, name in reasons.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return not_sent
    return {names.get(reason, reason): count for reason, count in not_sent.items()}


def extra(testbed: Testbed, shot: Shot, taking: Taking, frames: int) -> dict[str, Any]:
    """Keys that not every manifest has; ``frames`` are in the capture."""
    keys: dict[str, Any] = {"one_in": taking.how.one_in, "receiver": taking.receiver}
    if taking.how.one_in > 1 and taking.counts:
        keys |= {"one_in_by": taking.how.one_in_by, "sampled_out": taking.counts.sampled_out}
    if taking.how.method == "fpga":
        keys["p4"] = program_facts(taking)
    if taking.traffic is not None:
        keys["traffic"] = taking.traffic
    notes = [*testbed.notes(), *taking.watch.notes]
    if shot.trial is not None:
        keys |= {"environment": shot.environment, "trial": shot.trial}
        notes.append(testbed.replays().note)
    if taking.replayed is not None:
        keys["replayed_frames"] = taking.replayed
        if (lost := taking.replayed - frames) > 0:
            notes.append(f"{shot.sample}: {lost} of {taking.replayed} replayed frames are not in the capture")
    if shot.cycle is not None:
        keys["cycle"] = shot.cycle
    if taking.congestion is not None:
        keys["congestion"] = taking.congestion
    if taking.watchdog is not None:
        keys["clock"] = taking.watchdog.clock or clock_of("")
        keys["watchdog"] = taking.watch.facts()
    if taking.ended is not None:
        keys["ended_early"] = taking.ended
        notes.append(f"{shot.sample} ended early: {taking.ended}")
    if (silent_s := taking.watch.silent_s()) is not None:
        notes.append(f"{shot.sample}: {taking.instance.name} gave no sign of life for {silent_s} s")
    if taking.watch.growing() is False:
        passed = f"; does {taking.how.filter!r} let any pass?" if taking.how.filter else ""
        notes.append(f"{shot.sample}: frames came and the capture did not grow{passed}")
    return keys | {"notes": notes}
