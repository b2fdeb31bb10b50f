"""Random schedules of FABRIC's faults, and the collections that run under them.

A seed determines a schedule: which faults begin and end at which request, and when the user presses Ctrl-C. Time is
simulated where the collection waits for FABRIC, so that a hang costs no time and limits are exact.
"""

import contextlib
import datetime
import os
import random
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from acapella_testing.capture import veth
from acapella_testing.fabric import collection_runs
from acapella_testing.fabric.behavior import Faults
from acapella_testing.fabric.collection_runs import OTHERS, PORTS
from acapella_testing.fabric.experiment import HOSTS, NODES, SLICE, experiment
from acapella_testing.fabric.experiment import SITES as EXPERIMENT_SITES
from acapella_testing.fabric.graphs import graph, needs
from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.fabric.orchestrator import LEASE, TAGS, Orchestrator, StoredSlice

from acapella_capture.testbeds.fabric import remote, session, slices, testbed
from acapella_capture.testbeds.fabric.own_slice import own
from acapella_capture.testbeds.local import replay_capture

CAMPAIGN = "first"
SENDER = {"node": "n1", "interface": "left0", "destination_mac": "02:00:00:00:00:77"}  # for replays
PACKETS = 40
SITES = ("STAR", "UTAH")
REQUESTS = 150  # a collection without faults needs fewer
WAITING = (remote, session, slices, testbed, own)  # modules that wait for FABRIC
LIMITS = {"wait_timeout_s": 600, "mirror_timeout_s": 300, "release_timeout_s": 300, "poll_s": 5, "lease_h": 24}
PATHS = ("/slices/creates", "/slices/modify", "/slices/renew", "/slices/delete", "/slices", "/slivers", "/resources")
Draw = Callable[[random.Random], object]
# Draws a value for each setting: of the orchestrator's faults, of the nodes, and of the orchestrator itself.
DRAWS: dict[str, Draw] = {
    "create_status": lambda rng: [rng.choice((500, 503))] * rng.randint(1, 9),
    "notice": lambda rng: rng.choice(("playbook failed", "Insufficient resources : ['disk']")),
    "queries": lambda rng: rng.randint(1, 200),
    "kept": lambda rng: f"acapella-{CAMPAIGN}-{rng.choice(SITES)}",
    "metrics_status": lambda rng: rng.choice((403, 500)),
    "lease_limit_h": lambda rng: rng.choice((0.5, 3)),
    "lost_answers": lambda rng: [rng.choice(PATHS) for _ in range(rng.randint(1, 6))],
    "hidden": lambda rng: rng.randint(1, 40),
    "latency_s": lambda _: 0.01,
    "too_many": lambda rng: rng.randint(1, 40),
    "expire_after": lambda rng: rng.randint(0, 40),
    "drop_every": lambda rng: rng.randint(3, 12),
    "booting": lambda rng: rng.randint(1, 30),
    "states": lambda rng: {rng.choice(SITES): rng.choice(("Maint", "PartMaint"))},
    "sites": lambda rng: {site: [HOSTS | {"maintenance": rng.random() < 0.5} for _ in range(2)] for site in SITES},
    "tags": lambda rng: tuple(tag for tag in TAGS if rng.random() < 0.8),
}
SWITCHES = ("refuse", "first_mirrors_fail", "stuck", "modify_fails", "failed_service_stays", "no_summary",
            "ipv6_management", "refusing", "expired_key")  # fmt: skip
DRAWS |= dict.fromkeys(SWITCHES, lambda _: True)


@dataclass(frozen=True, eq=False)
class Change:
    """A fault: from request `at` to request `until` (exclusive; None: to the end) a setting has a value."""

    setting: str
    value: object
    at: int
    until: int | None


@dataclass(frozen=True)
class Schedule:
    """What happens during one collection."""

    seed: int
    changes: tuple[Change, ...]
    instances: int
    refresh: bool  # whether the user has a refresh token
    others: int  # slices of other campaigns
    interrupts: tuple[int, ...]  # requests during which the user presses Ctrl-C
    own: bool = False  # whether the nodes are added to the user's own slice
    loses_tags: bool = False  # whether the project loses its permissions before --release-all
    digests: bool = False  # whether captures are digested on their nodes
    replays: bool = False  # whether a trial is replayed from a node of the user's slice after the samples


def schedule(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    rng = random.Random(seed)
    changes = []
    for setting in rng.sample(sorted(DRAWS), rng.randint(1, 4)):
        at = rng.choice((0, rng.randrange(REQUESTS)))
        changes.append(Change(setting, DRAWS[setting](rng), at, rng.choice((None, at + rng.randint(1, 100)))))
    return Schedule(
        seed,
        tuple(changes),
        instances=rng.choice((1, 1, 2)),
        refresh=rng.random() < 0.5,
        others=rng.choice((1, 1, 1, 250)),
        interrupts=tuple(sorted(rng.randrange(REQUESTS) for _ in range(rng.choice((0, 0, 0, 1, 1, 2))))),
    )


class SimulatedClock:
    """Replaces module `time` in the modules that wait for FABRIC: each sleep advances it, for all threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.passed_s += seconds
        time.sleep(0.001)  # lets other threads continue

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


class ScheduledOrchestrator(Orchestrator):
    """An orchestrator whose faults follow a schedule. It records what exceeds a limit in `excesses`."""

    def __init__(self, sites: dict[str, list[dict]] | None = None):
        super().__init__(sites)
        self.plan: Schedule | None = None
        self.nodes = None
        self.excesses: list[str] = []
        self._before: dict[Change, object] = {}
        self._count = 0

    def answer(self, method: str, path: str, query: dict, body: bytes, authorization: str) -> tuple[int, object]:
        with self._lock:
            if self.plan is not None:
                self._apply(self._count)
                self._count += 1
            status, content = super().answer(method, path, query, body, authorization)
            if self.plan is not None:
                self._check(query)
            return status, content

    def _apply(self, request: int) -> None:
        for change in self.plan.changes:
            owner = next(each for each in (self.faults, self.nodes, self) if hasattr(each, change.setting))
            if request == change.at:
                self._before[change] = getattr(owner, change.setting)
                value = change.value
                setattr(owner, change.setting, value.copy() if isinstance(value, list | dict) else value)
            if request == change.until:
                setattr(owner, change.setting, self._before[change])
        if request in self.plan.interrupts:
            os.kill(os.getpid(), signal.SIGINT)

    def _check(self, query: dict) -> None:
        """Record what exceeds the limits of the collection."""
        ours = [each for each in self.alive() if each.name.startswith(f"acapella-{CAMPAIGN}-") and is_ours(each)]
        names = [each.name for each in ours]
        allowed = set() if self.plan.own else {f"acapella-{CAMPAIGN}-{site}" for site in SITES}
        if len(set(names)) != len(names) or not set(names) <= allowed:
            self.excesses.append(f"slices {names}")
        nodes = {each.name: len(needs(each.model)) for each in ours}
        self.excesses += [f"{name} has {count} nodes" for name, count in nodes.items() if count > self.plan.instances]
        added = [name for each in self.alive() if each.name == SLICE for name in nodes_in(each)]
        if len(added) > self.plan.instances * len(SITES):
            self.excesses.append(f"nodes {added}")
        for text in query.get("lease_end_time", ()):
            end = datetime.datetime.strptime(text, LEASE) - datetime.datetime.now(datetime.UTC)
            if end > datetime.timedelta(hours=LIMITS["lease_h"], minutes=1):
                self.excesses.append(f"a lease of {end}")


def is_ours(stored: StoredSlice) -> bool:
    """Return whether a slice belongs to the campaign; `acapella-first-more-STAR` belongs to campaign `first-more`."""
    return re.fullmatch(rf"acapella-{CAMPAIGN}-[^-]+", stored.name) is not None


def nodes_in(stored: StoredSlice) -> list[str]:
    """Return the nodes of the campaign in the user's slice."""
    return [node.name for node in needs(stored.accepted or stored.model) if node.name not in NODES]


def left_in(orchestrator: Orchestrator) -> Iterator[str]:
    """Yield the slices of the campaign, and its nodes in the user's slice, as errors name them."""
    for each in orchestrator.alive():
        if is_ours(each):
            yield each.name
        elif each.name == SLICE:
            yield from (f"{SLICE}/{name}" for name in nodes_in(each))


def mirrors_in(orchestrator: Orchestrator) -> Iterator[str]:
    """Yield the mirrors in the user's slice."""
    for each in orchestrator.alive():
        services = graph(each.accepted or each.model).network_services if each.name == SLICE else {}
        yield from (str(name) for name, service in services.items() if service.mirror_port)


@dataclass(frozen=True)
class Ended:
    """A collection that has ended under a schedule."""

    plan: Schedule
    status: int
    out: str
    err: str
    left: tuple[str, ...]  # names of its slices, or of its nodes in the user's slice, that still exist
    mirrors: tuple[str, ...]  # that still exist in the user's slice
    others: int  # slices of other campaigns that still exist
    raw: Path
    passed_s: float
    excesses: tuple[str, ...]

    @property
    def last_line(self) -> str:
        return (self.err.strip().splitlines() or [""])[-1]

    def faults(self) -> list[str]:
        """Return the violations of the rules for a collection."""
        last, limit = self.last_line, limit_s(self.plan)
        rules = {
            f"status {self.status}": self.status in (0, 2, 130),
            "a traceback is printed": "Traceback" not in self.out + self.err,
            f"the last line is not the error: {last!r}": self.status != 2 or last.startswith("acapella: error: "),
            "no command releases what is left": not self.left or last.endswith(" --release-all"),
            f"{self.plan.others - self.others} slices of others are deleted": self.others == self.plan.others,
            "success without samples.tsv": self.status != 0 or (self.raw / "samples.tsv").is_file(),
            f"{self.passed_s:.0f} s of waiting, the limit is {limit:.0f} s": self.passed_s <= limit,
        }
        unnamed = [f"{name} is left and not named" for name in self.left if name not in last]
        return [*self.excesses, *unnamed, *(fault for fault, followed in rules.items() if not followed)]


def limit_s(plan: Schedule) -> float:
    """Return the maximum simulated duration of a collection: the sum of all time limits, for each site."""
    create = 2 * LIMITS["wait_timeout_s"] + LIMITS["release_timeout_s"]
    creations = (plan.instances + 1) * 2  # with and without first mirrors, one node fewer each time
    moves = len(PORTS) * 4 * LIMITS["mirror_timeout_s"]  # two modifications, each of which is waited for twice
    return (len(SITES) + plan.replays) * (
        creations * create + moves + 2 * LIMITS["wait_timeout_s"] + 2 * LIMITS["release_timeout_s"]
    )


@contextlib.contextmanager
def scheduled_fabric(directory: Path, plan: Schedule) -> Iterator[Loopback]:
    """Run a FABRIC whose faults follow a schedule, with slices of other campaigns."""
    sites = EXPERIMENT_SITES if plan.own or plan.replays else None
    with contextlib.ExitStack() as stack:
        fabric = stack.enter_context(loopback_fabric(directory, sites, kind=ScheduledOrchestrator))
        orchestrator = fabric.orchestrator
        if plan.own or plan.replays:
            experiment(fabric)
        if plan.replays:
            fabric.nodes.prefixes[SENDER["node"]] = stack.enter_context(veth.namespace((SENDER["interface"], "peer")))
        orchestrator.nodes, orchestrator.plan = fabric.nodes, plan
        fabric.give_token(**({"refresh_token": "refresh-1"} if plan.refresh else {}))
        for number in range(plan.others):
            other = StoredSlice(
                str(uuid.uuid4()), f"acapella-{CAMPAIGN}-more{number}-STAR", "StableOK", "", "", "StableOK", holds=False
            )
            orchestrator.slices[other.slice_id] = other
        yield fabric


def collected(fabric: Loopback, plan: Schedule, *words: str) -> tuple[int, Path]:
    """Run `acapella collect` in this process; return its exit status and the campaign's directory."""
    chosen = {"mode": "sites", "port_selection": "fixed", "ports": {"STAR": PORTS, "UTAH": OTHERS[:1]}}
    if plan.own:
        chosen = {"mode": "slice", "slice": SLICE, "port_selection": "all", "ports": None}
    changes = dict(LIMITS)
    if plan.digests:
        chosen |= {"digest_on": "node"}
    if plan.replays:
        capture = fabric.directory / "replayed.pcap"
        replay_capture.write(capture, "02:00:00:00:00:01", "02:00:00:00:00:02", PACKETS)
        changes["replay"] = {
            "slice": SLICE, "senders": [SENDER], "site": "STAR", "port": PORTS[0], "repeats": 1, "capture": str(capture)
        }  # fmt: skip
    config = {
        "testbed": "fabric",
        "capture": {"sample_s": 0.1},
        "collect": {"sites": list(SITES), "instances": plan.instances, "telemetry_wait_s": 0, **chosen},
        "fabric": asdict(fabric.settings(**changes)) | {"nodes": "own" if plan.own else "separate"},
    }
    return collection_runs.run(fabric, config, *words)


def run(directory: Path, plan: Schedule, capsys: pytest.CaptureFixture) -> tuple[Ended, Ended]:
    """Collect under a schedule, and release what is left once the faults have ended; return both results."""
    with scheduled_fabric(directory, plan) as fabric, pytest.MonkeyPatch.context() as patch:
        first = run_collect(fabric, plan, capsys, patch)
        orchestrator = fabric.orchestrator
        orchestrator.plan, orchestrator.states = None, {}
        orchestrator.faults, fabric.nodes.refusing, fabric.nodes.drop_every = Faults(), False, 0
        fabric.nodes.expired_key, fabric.nodes.booting = False, 0
        for stored in orchestrator.alive():
            stored.queries = 0
        fabric.give_token()
        orchestrator.tags = () if plan.loses_tags else orchestrator.tags
        return first, run_collect(fabric, plan, capsys, patch, "--release-all")


def run_collect(
    fabric: Loopback, plan: Schedule, capsys: pytest.CaptureFixture, patch: pytest.MonkeyPatch, *words: str
) -> Ended:
    clock = SimulatedClock()
    for module in WAITING:
        patch.setattr(module, "time", clock)
    status, campaign = collected(fabric, plan, *words)
    printed, orchestrator = capsys.readouterr(), fabric.orchestrator
    others = [each for each in orchestrator.alive() if each.name != SLICE and not is_ours(each)]
    return Ended(
        plan, status, printed.out, printed.err, tuple(left_in(orchestrator)), tuple(mirrors_in(orchestrator)),
        len(others), campaign / "raw", clock.passed_s, tuple(dict.fromkeys(orchestrator.excesses)),
    )  # fmt: skip
