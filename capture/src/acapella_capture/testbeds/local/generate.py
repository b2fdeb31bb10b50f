"""Traffic from a model, sent from site1 over a path (replay_path.py) and counted at host1 of site2.

The generator of `acapella generate` runs in the namespace of host1 of site1, and the monitor of `acapella monitor` runs
in the receiver's namespace. The outermost Ethernet addresses of the packets are the addresses of the path.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from acapella_core import shards
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, scratch_directory, sha256_of

from ...generate import model, program, result
from ...generate.compiled import CompiledModel, Flow
from ...monitor import expected, tables
from ...monitor import program as monitor
from ...monitor.sender import Sender
from ...settings import GenerateEnvironment, GenerateSettings
from ..base import Replay
from . import drops
from .emulated_link import EmulatedLink
from .emulated_link import executable as link_program
from .network import Network
from .processes import SPOOL, LocalJob, in_namespace, spool_path, start, terminate, wait_until
from .replay_path import BRIDGE, QUEUE_BYTES, ReplayPath, check_path

KEY = "local.generate"
SENDER_MAC, ROUTER_MAC = "02:00:00:00:fd:01", "02:00:00:00:fd:02"  # used by no host
DIRECTORY = "generated"  # in the campaign
LIST = "generated.json"
POLL_S = 0.05
SETTLE_S = 0.5  # time to wait for packets in transit, in addition to delays of the path
MAC_BYTES = 6


class Generator:
    """The generated traffic of one allocation of the testbed. ``bridges``: the switches are kernel bridges."""

    def __init__(self, network: Network, settings: GenerateSettings, *, bridges: bool):
        if network.sites < 2:
            raise UserError("requires at least two sites", where=KEY, fix="local.sites: 2")
        if not bridges:  # Open vSwitch forwards only frames with the MAC addresses of hosts in the same slice
            raise UserError("not supported by Open vSwitch", where=KEY, fix="local.switch: bridge")
        self.settings = settings
        self.network = network
        self.receiver = network.hosts(2)[0]
        self.environments = {environment.name: environment for environment in settings.environments}
        for environment in settings.environments:
            check_path(network, environment, bridges=True)
        self._rate_bps = round(settings.bottleneck_mbps * 1e6)
        self._model: CompiledModel | None = None
        self._current: Run | None = None

    def replay_plan(self) -> Replay:
        """Return the plan of the trials (testbeds.base)."""
        site = self.network.site(self.receiver.site)
        return Replay(
            site=site,
            port=next(port for port in site.ports if port.name == f"port{self.receiver.number}"),
            direction="tx",
            filter=f"ether src {SENDER_MAC} or ether src {ROUTER_MAC}",
            repeats=dict.fromkeys(self.environments, self.settings.repeats),
            notes={name: self._note(environment) for name, environment in self.environments.items()},
        )

    def _note(self, environment: GenerateEnvironment) -> str:
        path = self._path(environment)
        link = f" and an emulated link ({environment.link})" if environment.link else ""
        return (
            f"trial: generated from a model at {path.endpoints[0].node}, and counted at {self.receiver.name}, over "
            f"{path.link} at {path.facts()['rate_bps'] / 1e6:g} Mbit/s{link}; nothing else sends"
        )

    def _path(self, environment: GenerateEnvironment) -> ReplayPath:
        return ReplayPath(self.network, environment, self._rate_bps, one_process=True)

    def require(self) -> None:
        """Check the programs, and read the model, which the scratch file system may hide later. Raises UserError."""
        program.executable()
        monitor.executable()
        if any(environment.link for environment in self.settings.environments):
            link_program()
        self._model = model.read(Path(self.settings.model), program.read_trace)
        for number, flow in enumerate(self._model.flows):
            if flow.protocols[:1] != ("ethernet",):
                where = f"{self.settings.model}: flow {number} ({flow.name})"
                raise UserError("the outermost header is not Ethernet", where=where)

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """Set up the path and the emulated link of an environment. Raises UserError if that fails."""
        environment = self.environments[name]
        path = self._path(environment)
        link = None
        try:
            path.open()
            if environment.link:
                link = EmulatedLink(self.network, environment.link, ROUTER_MAC, self.receiver.mac)
                link.open(BRIDGE)
            macs = SENDER_MAC, ROUTER_MAC if link else self.receiver.mac
            self._current = Run(between_macs(self._model, *macs), path, link, self.receiver.name, self.network.mtu)
            yield
        finally:
            self._current = None
            if link:
                link.close()
            path.close()

    def play(self) -> int:
        """Generate the traffic once (testbeds.base)."""
        return self._current.play(self._rate_bps)

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write the list of flows and the tables of the last trial (testbeds.base)."""
        return {"generated": self._current.deliver(sample, shards.directory_of(raw.parent, DIRECTORY, sample) / sample)}


class Run:
    """The trials of an environment."""

    def __init__(self, traffic: CompiledModel, path: ReplayPath, link: EmulatedLink | None, receiver: str, mtu: int):
        self._model = traffic
        self._path = path
        self._link = link
        self._receiver = receiver
        self._mtu = mtu
        self._sent: dict[str, Any] = {}
        self._rows: dict[str, list[tables.Row]] = {}
        self._facts: dict[str, Any] = {}

    @property
    def _queue_interfaces(self) -> list[tuple[str, str]]:
        return [*self._path.queue_interfaces, *(self._link.queue_interfaces if self._link else [])]

    def play(self, rate_bps: int) -> int:
        """Send the traffic and count what arrives; return the number of packets sent. Raises UserError."""
        before = drops.dropped_frames(self._queue_interfaces)
        if self._link:
            self._link.begin()
        settle_s = SETTLE_S + 4 * QUEUE_BYTES * 8 / rate_bps + (self._link.delay_ns / 1e9 if self._link else 0)
        with scratch_directory(SPOOL) as scratch:
            wanted = expected_flows(self._model, scratch)
            sender = LocalSender(self._model, self._path.endpoints[0], self._mtu, scratch, settle_s)
            settings = monitor.Settings(
                interfaces=("eth0",),
                within=tuple(in_namespace(self._receiver, [])),
                mtu=self._mtu,
                wanted=wanted,
                every_s=POLL_S,
            )
            try:
                counted = monitor.count(settings, scratch, on_event=sender.on_event)
            finally:
                sender.close()
            self._sent = sender.document()
            (scratch / LIST).write_text(json.dumps(self._sent))
            drifts = [tables.drift_of(port) for port in counted.ports]
            self._rows = tables.rows_of(counted.ports, expected.read(scratch / LIST), drifts, corrected=False)
        wait_until(lambda: not any(drops.queued_bytes(*interface) for interface in self._path.queue_interfaces))
        self._facts = {
            "path": self._path.facts(),
            "link": self._link.facts() if self._link else None,
            "dropped": drops.since(before, drops.dropped_frames(self._queue_interfaces)),
        }
        return self._sent["packets"]

    def deliver(self, sample: str, directory: Path) -> dict[str, Any]:
        """Write the files of the last trial to a directory; return manifest key `generated`."""
        directory.mkdir(parents=True, exist_ok=True)
        atomic_text(directory / LIST, json.dumps(self._sent, indent=1) + "\n")
        for row in self._rows["monitor_ports"]:
            row["name"] = sample
        written = tables.write(directory, self._rows, with_csv=False)
        files = [{"file": path.name, "sha256": sha256_of(path)} for path in (directory / LIST, *written)]
        return {"model_sha256": self._model.sha256, "seed": self._model.seed, **self._facts, "files": files}


class LocalSender(Sender):
    """The generator at a node."""

    def __init__(self, traffic: CompiledModel, endpoint: Any, mtu: int, scratch: Path, settle_s: float):
        super().__init__(settle_s)
        self._model = traffic
        self._node = endpoint.node
        compiled = scratch / "model"
        compiled.write_text(traffic.text(), encoding="ascii")
        port = program.port_arguments(endpoint.interface, mtu)
        self._argv = [program.executable(), "--model", str(compiled), *port]
        self._report = spool_path(self._node, "generated.report")
        self._job: LocalJob | None = None

    def start(self) -> None:
        self._job = start(self._node, self._argv, output=str(self._report))

    def ended(self) -> bool:
        status = self._job.poll()
        if status:
            raise UserError(f"{program.PROGRAM}: {self._job.last_line()}", where=f"node {self._node}")
        return status is not None

    def close(self) -> None:
        if self._job:
            terminate([self._job])

    def document(self) -> dict[str, Any]:
        """Return what was sent (schemas/generated.json). Raises UserError if packets of the model were not sent."""
        document = result.document(self._model, json.loads(self._report.read_text()), "interface")
        if reasons := result.unsent_reasons(document):
            raise UserError(f"{program.PROGRAM}: {'; '.join(reasons)}", where=f"node {self._node}")
        return document


def expected_flows(traffic: CompiledModel, scratch: Path) -> expected.ExpectedFlows:
    """Return the list of flows of a model, from a file that is generated and removed. Raises UserError."""
    capture, document = scratch / "generated.pcap", scratch / LIST
    report = program.run(traffic, ["--output", str(capture), "--start-ns", str(traffic.start_ns)])
    capture.unlink()
    document.write_text(json.dumps(result.document(traffic, report, "file")))
    return expected.read(document)


def between_macs(traffic: CompiledModel, source: str, destination: str) -> CompiledModel:
    """Return a model with the given addresses in the outermost Ethernet headers."""
    return replace(traffic, flows=tuple(flow_between(flow, source, destination) for flow in traffic.flows))


def flow_between(flow: Flow, source: str, destination: str) -> Flow:
    """Return a flow with the given addresses in its outermost header."""
    macs = {"dst": bytes.fromhex(destination.replace(":", "")), "src": bytes.fromhex(source.replace(":", ""))}
    fields = tuple(
        replace(field, value=int.from_bytes(macs[field.name]), varying=None)
        if field.header == 0 and field.name in macs
        else field
        for field in flow.fields
    )
    return replace(flow, fields=fields, template=macs["dst"] + macs["src"] + flow.template[2 * MAC_BYTES :])
