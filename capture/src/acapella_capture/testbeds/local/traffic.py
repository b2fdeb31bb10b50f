"""Real programs that communicate across the local testbed, according to the traffic plan in the config.

A kind of traffic is a client and, if it needs one, a server (services.py). A client of span `sample` starts and ends
with each sample; a client of span `run` starts once and spans all samples. Missing programs and failed clients are
skipped and noted, so that a manifest describes the traffic of its sample.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acapella_core.errors import UserError

from ..base import Span
from .network import Host, Network
from .processes import LocalJob, environment, start, terminate, wait_until
from .sandbox import SCRATCH
from .services import Services

FIRST_PORT = 5201  # first iperf3 port; every client has its own server
IPERF3 = ("iperf3_tcp", "iperf3_udp")
CLOSED_PORT = 9  # discard: no program listens
REPLY_TIMEOUT_S = 30  # from the start of a service until its first reply
MAX_SILENT_SAMPLES = 3  # consecutive samples without a listening server; waiting longer would delay other items
REQUEST = "acapella: request ended with "
PACED = f'while :; do "$@"; echo "{REQUEST}$?" >&2; sleep "$0"; done'  # sh -c PACED SECONDS COMMAND...


@dataclass(frozen=True)
class TrafficItem:
    """One entry of the traffic plan, with its hosts and the server's address."""

    kind: str
    number: int
    client: Host
    server: Host
    ip: int
    path: str
    address: str
    streams: int
    rate_mbps: float
    burst_frames: int
    per_s: float
    size_kib: int
    span: Span

    @property
    def url_host(self) -> str:
        """Return the server's address as written in a URL."""
        return f"[{self.address}]" if self.ip == 6 else self.address

    @property
    def label(self) -> str:
        """Return the item's description for notes: its content, because the user's config lacks the default plan."""
        path = "" if self.path == "standard" else f", {self.path}"
        return f"traffic {self.kind} from {self.client.name} to {self.server.name} ({self.address}{path})"


def iperf3(item: TrafficItem, seconds: float, *options: str) -> list[str]:
    rate_bps = int(item.rate_mbps * 1e6 / item.streams)
    burst = f"/{item.burst_frames}" if item.burst_frames > 1 else ""
    if item.span == "sample":
        seconds *= 0.75  # so that the sample contains the end of the connection
    return ["iperf3", "-c", item.address, "-p", str(FIRST_PORT + item.number), "-t", str(max(1, int(seconds))),
            "-P", str(item.streams), "-b", f"{rate_bps}{burst}", *options]  # fmt: skip


def curl(item: TrafficItem, url: str, *options: str) -> list[str]:
    return ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "5", "--output", "/dev/null",
            *options, url]  # fmt: skip


def dig(item: TrafficItem, *options: str) -> list[str]:
    record = "AAAA" if item.ip == 6 else "A"
    return ["dig", f"@{item.address}", *options, "+tries=1", "+time=2", "+short", "server.acapella.test", record]


def ssh(item: TrafficItem) -> list[str]:
    # ignores the user's configuration, keys and agent
    options = ["-F", "none", "-i", str(SCRATCH / "ssh" / "client"), "-o", "IdentityAgent=none",
               "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
               "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=3"]  # fmt: skip
    return ["ssh", *options, "-l", "acapella", item.address, "uname -a; ls -l /usr/bin | head -n 200"]


@dataclass(frozen=True)
class Kind:
    """A kind of traffic: its programs, its service, one request, and whether requests are repeated."""

    programs: tuple[str, ...]
    service: str | None
    request: Callable[[TrafficItem, float], list[str]]
    repeated: bool = True
    expects_failure: bool = False  # requests are expected to fail


KINDS = {
    "iperf3_tcp": Kind(("iperf3",), None, iperf3, repeated=False),
    "iperf3_udp": Kind(("iperf3",), None, lambda i, s: iperf3(i, s, "-u"), repeated=False),
    "http": Kind(("curl",), "web", lambda i, s: curl(i, f"http://{i.url_host}/{i.size_kib}")),
    "https": Kind(("curl", "openssl"), "web", lambda i, s: curl(i, f"https://{i.url_host}/{i.size_kib}", "--insecure")),
    "dns": Kind(("dig", "dnsmasq"), "dns", lambda i, s: dig(i)),
    "ping": Kind(("ping",), None, lambda i, s: ["ping", "-i", f"{1 / i.per_s:.3f}", i.address], repeated=False),
    "ssh": Kind(("ssh", "sshd", "ssh-keygen"), "ssh", lambda i, s: ssh(i)),
    "refused": Kind(("curl",), None, lambda i, s: curl(i, f"http://{i.url_host}:{CLOSED_PORT}/"), expects_failure=True),
    "unreachable": Kind(("dig",), None, lambda i, s: dig(i, "-p", str(CLOSED_PORT)), expects_failure=True),
}


def resolve(network: Network, plan: list[dict]) -> list[TrafficItem]:
    """Return the plan with hosts and addresses.

    If an entry names no hosts, its pair depends on its number: pairs rotate over the sites, so that uplinks carry
    traffic. Raises UserError for an unknown host.
    """
    items = []
    for number, entry in enumerate(plan):
        client, server = endpoints(network, number, entry["client"], entry["server"])
        if not network.connected(client, server):
            message = f"{client.name} and {server.name} are not in the same slice"
            raise UserError(message, where=f"local.traffic[{number}]")
        values = {
            key: entry[key]
            for key in ("kind", "ip", "path", "streams", "rate_mbps", "burst_frames", "per_s", "size_kib", "span")
        }
        address = server.address(entry["ip"], entry["path"])
        items.append(TrafficItem(number=number, client=client, server=server, address=address, **values))
    return items


def endpoints(network: Network, number: int, client: str | None, server: str | None) -> tuple[Host, Host]:
    """Return client and server of an entry of the plan; an unnamed end is a host that the other end can reach."""
    sites = {site: network.hosts(site) for site in range(1, network.sites + 1)}
    named = {host.name: host for hosts in sites.values() for host in hosts}
    for role, name in (("client", client), ("server", server)):
        if name is not None and name not in named:
            where = f"local.traffic[{number}].{role}"
            raise UserError(f"no host {name!r}; known: {', '.join(named)}", where=where)
    site, host = number % network.sites + 1, number // network.sites
    near = sites[site][host % network.hosts_per_site]
    far = sites[site % network.sites + 1][(host + (network.sites == 1)) % network.hosts_per_site]
    if client is None and server is None:
        with_peers = [host for host in (near, *named.values()) if peer(network, host, far) is not None]
        near = with_peers[0] if with_peers else near
    elif client is None:
        near = peer(network, named[server], near) or near
    client_host = named[client] if client else near
    return client_host, named[server] if server else peer(network, client_host, far) or far


def peer(network: Network, host: Host, preferred: Host) -> Host | None:
    """Return the preferred peer of a host. If its slice differs, return a host of the same slice, or None."""
    if host != preferred and network.connected(host, preferred):
        return preferred
    others = [other for site in range(1, network.sites + 1) for other in network.hosts(site) if other != host]
    reachable = [other for other in others if network.connected(host, other)]
    return next((other for other in reachable if other.site != host.site), reachable[0] if reachable else None)


@dataclass
class ClientRecord:
    """The result of an entry of the plan: see `traffic` in schemas/manifest.schema.json."""

    started: int = 0
    failed: int = 0
    reason: str | None = None
    silent_samples: int = 0  # consecutive samples without a listening server


class Traffic:
    """The traffic of one allocation of the testbed."""

    def __init__(self, items: list[TrafficItem], paths: Sequence[str]):
        self.notes: list[str] = []
        self._records = {item: ClientRecord() for item in items}
        self.items = [item for item in items if self._has_path(item, paths) and self._has_programs(item)]
        self._services = Services()

    def facts(self) -> list[dict[str, Any]]:
        """Return manifest key `traffic`, as of now."""
        return [
            {"kind": item.kind, "client": item.client.name, "server": item.server.name, "address": item.address,
             "started": record.started, "failed": record.failed, "why": record.reason}
            for item, record in self._records.items()
        ]  # fmt: skip

    def _has_path(self, item: TrafficItem, paths: Sequence[str]) -> bool:
        if item.path not in paths:
            self._exclude(item, f"this kernel has no {item.path} device")
        return item.path in paths

    def _has_programs(self, item: TrafficItem) -> bool:
        path = environment()["PATH"]
        missing = [program for program in KINDS[item.kind].programs if shutil.which(program, path=path) is None]
        if missing:
            self._exclude(item, f"no {', '.join(missing)}")
        return not missing

    def _exclude(self, item: TrafficItem, reason: str) -> None:
        """Exclude an item from the traffic, with one note."""
        self._records[item].reason = f"skipped: {reason}"
        self.notes.append(f"{item.label} skipped: {reason}")

    def _fail(self, item: TrafficItem, reason: str) -> None:
        """Count a failure; note the first one of an item."""
        record = self._records[item]
        if record.failed == 0:
            self.notes.append(f"{item.label} failed: {reason}")
        record.failed += 1
        record.reason = reason

    def start_servers(self) -> None:
        """Start the servers of the plan, and exclude items whose client gets no reply from its server, with a note."""
        working = []
        for item in self.items:
            reason = self._ensure_service(item, try_client=True)
            if reason and not self._services.runs(KINDS[item.kind].service, item.server):
                reason = self._ensure_service(item, try_client=True)
            if reason:
                self._exclude(item, reason)
            else:
                working.append(item)
        self.items = working

    def _ensure_service(self, item: TrafficItem, *, try_client: bool = False) -> str | None:
        """Ensure that an item's service runs and, if it was started now or with `try_client`, replies.

        Return the reason if it does not, otherwise None.
        """
        kind = KINDS[item.kind]
        if kind.service is None:
            return None
        try:
            started = self._services.ensure_running(kind.service, item.server, item.size_kib)
        except UserError as error:
            return str(error)
        return self._wait_for_reply(item) if started or try_client else None

    def _wait_for_reply(self, item: TrafficItem) -> str | None:
        """Retry the client until it gets a reply or the service ends. Return the reason if it gets none, else None."""
        kind = KINDS[item.kind]
        last: list[LocalJob] = []

        def replied() -> bool:
            last[:] = [start(item.client.name, kind.request(item, 1))]
            return last[0].wait(6) == 0

        def finished() -> bool:
            return replied() or not self._services.runs(kind.service, item.server)

        if wait_until(finished, timeout_s=REPLY_TIMEOUT_S, every_s=0.1) and last[0].poll() == 0:
            return None
        output = (last[0].log() + self._services.log(kind.service, item.server)).strip().splitlines()
        return output[-1] if output else "no reply"

    @contextlib.contextmanager
    def running(self, span: Span, seconds: float) -> Iterator[None]:
        """Run the clients of a span; they are stopped at the end, and failures are noted."""
        items = [item for item in self.items if item.span == span]
        served = self._with_servers(items)
        jobs = [(item, self._client(item, seconds)) for item in served]
        try:
            yield
            for item, job in jobs:
                reason = failure(KINDS[item.kind], job)
                if reason:
                    self._fail(item, reason)
        finally:
            terminate([job for _, job in jobs])
            self._services.end_iperf3([item.number for item in items])

    def _with_servers(self, items: list[TrafficItem]) -> list[TrafficItem]:
        """Return the items whose servers are running; a server that has ended is restarted once."""
        faults = self._services.iperf3({i.number: (i.server, FIRST_PORT + i.number) for i in items if i.kind in IPERF3})
        faults |= {item.number: reason for item in items if (reason := self._ensure_service(item))}
        for item in items:
            record = self._records[item]
            record.started += 1
            record.silent_samples = record.silent_samples + 1 if item.number in faults else 0
            if item.number in faults:
                self._fail(item, faults[item.number])
            if record.silent_samples == MAX_SILENT_SAMPLES:
                self.items.remove(item)
                self._exclude(item, f"{MAX_SILENT_SAMPLES} consecutive failures: {faults[item.number]}")
        return [item for item in items if item.number not in faults]

    def _client(self, item: TrafficItem, seconds: float) -> LocalJob:
        kind = KINDS[item.kind]
        request = kind.request(item, seconds)
        if kind.repeated:
            request = ["sh", "-c", PACED, f"{1 / item.per_s:.3f}", *request]
        return start(item.client.name, request)


def failure(kind: Kind, job: LocalJob) -> str | None:
    """Return why a client failed (it ended with an error, or no request succeeded), or None if it did not fail."""
    if not kind.repeated:
        return job.last_line() if job.poll() not in (None, 0) else None
    lines = job.log().splitlines()
    statuses = [line.removeprefix(REQUEST) for line in lines if line.startswith(REQUEST)]
    if kind.expects_failure or not statuses or "0" in statuses:
        return None
    output = [line for line in lines if line.strip() and not line.startswith(REQUEST)]
    return output[-1].strip() if output else f"exit status {statuses[-1]}, no message"
