"""A fake testbed: sites, ports, nodes and captures exist in memory only; names select faults."""

import hashlib
import struct
from collections.abc import Sequence
from typing import ClassVar
from unittest.mock import Mock

from acapella_testing.new_files import write_file
from acapella_testing.processes import run

from acapella_capture.programs.tcpdump import Counts
from acapella_capture.testbeds.base import (
    CompletedProgram,
    Host,
    Instance,
    InsufficientResources,
    Job,
    Mirror,
    MirrorCounters,
    Port,
    Site,
    Testbed,
)
from acapella_core.errors import UserError

PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 200, 1)
FRAME = struct.pack("<IIII", 1, 0, 60, 60) + bytes(60)


def completed(argv: Sequence[object], **options) -> CompletedProgram:
    """Run a program on this machine, as a testbed does on a node. ``options``: of subprocess.run."""
    done = run(*argv, **options)
    return CompletedProgram(done.returncode, done.stdout, done.stderr)


class FakeMirror(Mirror):
    """A mirror that copies nothing, or fails to start."""

    instance, interface = "listener", "capture0"

    def __init__(self, port: str):
        self.port = port

    def start(self) -> None:
        if self.port == "no_mirror":
            raise UserError("tc failed: no such device", where="node site")

    def stop(self) -> None:
        """Do nothing."""

    def counters(self) -> MirrorCounters:
        return MirrorCounters(offered_frames=1, delivered_frames=1, offered_bytes=60, delivered_bytes=60)


class FakeTestbed(Testbed):
    """A testbed whose port and site names select faults. `calls` lists the calls in order."""

    name = "local"

    def __init__(self, *ports: str, sites: tuple[str, ...] = ("S",), **attributes: object):
        """``attributes`` replace those below."""
        self.ports, self.site_names = ports, sites
        self.fetched: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.max_instances = 99  # at a site
        self.broken_fetches = 0  # number of upcoming fetches that lose a byte
        self.left: tuple[str, ...] = ()
        self.receivers: tuple[str, ...] = ("capture0",)
        self.seen = "1000000 - 0 0"  # free KiB, bytes of the capture, seconds since the heartbeat, frames
        self.rate_bps: int | None = None
        vars(self).update(attributes)

    def sites(self):
        return tuple(Site(site, tuple(Port(name, self.rate_bps) for name in self.ports)) for site in self.site_names)

    def resources(self, site):
        return (Host("host", 32, 128, 1000, 0 if site == "no_nic" else 1),)

    def allocate(self, site, request):
        if site == "no_answer":
            raise UserError("the orchestrator did not respond", where="testbed")
        if site == "no_storage" or request.instances > self.max_instances:
            raise InsufficientResources("no storage", where="testbed")
        return self.instances(site)

    def instances(self, site):
        return () if site == "no_nic" else (Instance(f"{site}-listener", site, self.receivers),)

    def release(self, site=None) -> None:
        self.calls.append(("release", site or "all"))
        self.left = ()

    def leftovers(self):
        return self.left

    def mirror(self, instance, receiver, port, direction):
        if instance.site == "mistake":
            raise ZeroDivisionError("a mistake of ours")
        return FakeMirror(port)

    def listener_ports(self, site):
        return frozenset(port for port in self.ports if port.startswith("own"))

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        if "probe" in argv:
            return CompletedProgram(0, f"{self.seen}\n", "")
        if argv[0] == "sha256sum":
            return CompletedProgram(0, f"{hashlib.sha256(PCAP + FRAME).hexdigest()}  {argv[1]}\n", "")
        self.calls.append((argv[0], argv[-1]))
        return CompletedProgram(127 if argv[0] == "zstd" else 0, "", "")

    def start(self, node, argv, *, output=None):
        """Return the watchdog loop of a node, which runs until it is stopped."""
        return Mock(spec=Job, **{"poll.return_value": None, "wait.return_value": 0, "log.return_value": ""})

    def path_on_node(self, node, file):
        return f"/nowhere/{file}"

    def fetch(self, node, path, target):
        self.fetched.append(path)
        self.calls.append(("fetch", path))
        write_file(target, (PCAP + FRAME)[: -1 if self.broken_fetches > 0 else None])
        self.broken_fetches -= 1


class FakeTcpdump:
    """A tcpdump that counts one frame, or fails as selected by the port name in its file name."""

    running: ClassVar[set[str]] = set()

    def __init__(self, testbed, node, interface, settings, output):
        self.output, self.where = output, f"tcpdump on {node}"

    def start(self) -> None:
        if "no_start" in self.output:
            raise UserError("cannot start: no such device", where="tcpdump on listener")
        self.running.add(self.output)

    def alive(self) -> bool:
        return self.output in self.running and "dies" not in self.output

    def message(self) -> str:
        return "pcap_stats: failed"

    def stop(self) -> Counts | None:
        self.running.remove(self.output)
        if "no_stop" in self.output:
            raise UserError("failed: no space\tleft", where="tcpdump on listener")
        if "no_counts" in self.output:
            return None
        captured = 9 if "no_match" in self.output else 1
        return Counts(captured=captured, received=captured, dropped_kernel=0, dropped_interface=0)
