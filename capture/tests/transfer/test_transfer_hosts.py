"""Settings of TCP and of interfaces on nodes, with stubs that only have files and interface features."""

import contextlib
import json
from unittest.mock import Mock

import pytest
from acapella_testing.runs.in_process import call_before

from acapella_capture.testbeds.base import CompletedProgram
from acapella_capture.transfer import nodes as local_nodes
from acapella_capture.transfer.hosts import IPV4, Hosts
from acapella_capture.transfer.nodes import OFFLOADS, LocalNodes
from acapella_capture.transfer.topology import read_topology
from acapella_core.errors import UserError


class OneOffload(LocalNodes):
    """Nodes of a linear slice without namespaces. An offload of an interface of the last router remains active."""

    def __init__(self):
        self.asked: list[tuple[str, str]] = []

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        if argv[0] != "ethtool":
            return CompletedProgram(0, "1", "")
        self.asked.append((node, argv[-1]))
        active = {"gro"} if self.asked[-1] == ("r3", "to-h2") else set()
        features = {name: {"active": short in active} for name, short in OFFLOADS.items()}
        return CompletedProgram(0, json.dumps([features]), "")


@pytest.fixture
def nodes(monkeypatch) -> OneOffload:
    monkeypatch.setattr(local_nodes, "make_namespace", lambda *_, **__: None)
    monkeypatch.setattr(local_nodes, "disable_offloads", lambda *_: None)
    return OneOffload()


def test_router_offload_that_cannot_be_disabled_is_an_error(nodes):
    with pytest.raises(UserError, match="node r3: gro of to-h2 cannot be disabled"):
        nodes._build(read_topology("linear"))


def test_environment_contains_the_offloads_of_all_nodes(nodes):
    found = Hosts(nodes, ("h1", "h2")).environment(read_topology("linear"))
    assert found["offloads"] == {"tso": False, "gso": False, "gro": True}
    assert len(set(nodes.asked)) == 2 * len(read_topology("linear").links)


class Files:
    """Stubs of two hosts: values by host and file."""

    def __init__(self, **maxima: int):
        names = ("tcp_rmem", "tcp_wmem")
        self.values = {(h, f"{IPV4}/{name}"): f"4096 16384 {size}" for h, size in maxima.items() for name in names}
        more = {"tcp_no_metrics_save": "0", "tcp_notsent_lowat": "4294967295"}
        self.values |= {(host, f"{IPV4}/{name}"): value for host in maxima for name, value in more.items()}

    def read(self, host: str, path: str) -> str:
        return self.values[host, path]

    def write(self, host: str, path: str, value: str) -> None:
        self.values[host, path] = value


@pytest.mark.parametrize(("flight", "max_bytes"), [(100, 64 << 20), (32 << 20, 256 << 20)])
def test_buffers_of_tcp_never_become_smaller(flight, max_bytes):
    files = Files(h1=6 << 20, h2=64 << 20)
    hosts, before = Hosts(files, ("h1", "h2")), dict(files.values)
    hosts.set_window(flight)
    assert {files.values[host, f"{IPV4}/tcp_rmem"] for host in ("h1", "h2")} == {f"4096 16384 {max_bytes}"}
    assert files.values["h1", f"{IPV4}/tcp_notsent_lowat"] == "131072"
    hosts.restore()
    assert files.values == before


@pytest.mark.parametrize(("flight", "warned"), [(128 << 20, False), ((128 << 20) + 1, True)])
def test_buffer_that_the_kernel_cannot_provide_is_reported(capsys, flight, warned):
    Hosts(Files(h1=6 << 20, h2=6 << 20), ("h1", "h2")).set_window(flight)
    assert ("may hold less than twice as many" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(("allowed", "succeeds"), [("reno cubic", True), ("reno bbr", False)])
def test_only_the_error_of_an_algorithm_that_is_not_allowed_is_ignored(monkeypatch, allowed, succeeds):
    files = Files(h1=6 << 20, h2=6 << 20)
    names = {"available_congestion_control": "reno cubic bbr", "allowed_congestion_control": allowed}
    for name, value in (names | {"congestion_control": "reno"}).items():
        files.values |= {(host, f"{IPV4}/tcp_{name}"): value for host in ("h1", "h2")}
    monkeypatch.setattr(files, "write", Mock(side_effect=UserError("lost connection", where="node h1")))
    with contextlib.nullcontext() if succeeds else pytest.raises(UserError, match="node h1: lost connection"):
        Hosts(files, ("h1", "h2")).set_algorithm("bbr")


def test_all_values_are_restored_although_one_cannot_be(monkeypatch):
    files = Files(h1=6 << 20, h2=6 << 20)
    hosts, before = Hosts(files, ("h1", "h2")), dict(files.values)
    hosts.set_window(1)

    def fail_first(host: str, path: str, _value: str) -> None:
        if (host, path) == ("h1", f"{IPV4}/tcp_no_metrics_save"):
            raise UserError("lost connection", where="node h1")

    call_before(monkeypatch, files, "write", fail_first)
    with pytest.raises(UserError, match="lost connection"):
        hosts.restore()
    assert {key for key in before if before[key] != files.values[key]} == {("h1", f"{IPV4}/tcp_no_metrics_save")}
