"""The processor that is reserved for acapella-link."""

import os
import shutil
from unittest.mock import Mock, call

import pytest
from acapella_testing.capture.callers import Caller, namespaces_or_skip
from acapella_testing.processes import run
from acapella_testing.requirements import require

from acapella_capture.transfer.delay import LinkDelays
from acapella_capture.transfer.link_process import Link
from acapella_capture.transfer.reserved_cpu import STEER, ReservedCpu, cpu_mask
from acapella_capture.transfer.topology import read_topology


def nodes_whose_programs_end(status: int = 0) -> Mock:
    return Mock(**{"run.return_value.status": status})


@pytest.fixture
def affinity(monkeypatch):
    """Return the processors of this process (0) and of others, which the tests change instead of the real ones."""
    allowed = {0: {1, 4, 6}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(allowed[process]))
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, processors: allowed.update({process: {*processors}}))
    return allowed


def test_last_processor_is_reserved_for_the_link_until_the_end(affinity):
    reserved = ReservedCpu()
    reserved.assign(77)
    assert affinity == {0: {1, 4}, 77: {6}}
    reserved.close()
    assert affinity == {0: {1, 4, 6}, 77: {6}}


def test_packets_that_arrive_at_a_host_are_processed_on_the_other_processors(affinity):
    nodes = nodes_whose_programs_end()
    assert ReservedCpu().steer(nodes, "h1", "to-r1")
    ((node, argv),) = [each.args for each in nodes.run.call_args_list]
    assert (node, argv[-2:]) == ("h1", ["12", "to-r1"])
    assert not ReservedCpu().steer(nodes_whose_programs_end(1), "h1", "to-r1")


def test_single_processor_is_shared(affinity):
    affinity[0] = {3}
    nodes, reserved = nodes_whose_programs_end(), ReservedCpu()
    reserved.assign(77)
    assert not reserved.steer(nodes, "h1", "to-r1")
    reserved.close()
    assert (affinity, nodes.method_calls) == ({0: {3}}, [])


@pytest.mark.parametrize(
    ("processors", "mask"),
    [([0], "1"), ([0, 1, 3], "b"), ([32], "1,00000000"), (range(40), "ff,ffffffff"), ([0, 64], "1,00000000,00000001")],
)
def test_mask_has_groups_of_32_bits(processors, mask):
    assert cpu_mask(processors) == mask


def test_kernel_accepts_the_mask_in_the_namespace_of_the_host():
    namespaces_or_skip(Caller())
    require(os.geteuid() == 0, "receive packet steering needs root")
    script = f'ip link add to-r1 type veth peer name other && ({STEER}) && cat "/sys/class/net/$2/queues/rx-0/rps_cpus"'
    done = run("unshare", "--net", "--mount", "sh", "-c", script, "sh", cpu_mask([0]), "to-r1")
    assert (int(done.stdout.replace(",", ""), 16), done.stderr) == (1, "")


def test_unknown_link_value_is_an_error():
    link = Mock(spec=Link)
    Link.set(link, "to-b", duplicate_ppm=5, delay_ns=1)
    with pytest.raises(TypeError, match="unknown link values: los_ppm"):
        Link.set(link, "to-b", los_ppm=1)
    assert link.method_calls == [call._command("to-b", "set to-b 1 0 0 0 5")]


def delays_without_a_process(monkeypatch, nodes: Mock) -> LinkDelays:
    nodes.on_this_machine, nodes.device = True, lambda node, peer: f"to-{peer}"
    nodes.start_link.return_value = Mock(spec=Link, pid=77, realtime=False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/bin/acapella-link")
    return LinkDelays(nodes, read_topology("linear"), "both", 1)


@pytest.mark.parametrize(
    ("status", "processors", "found"),
    [(0, {1, 4, 6}, (True, True)), (1, {1, 4, 6}, (True, False)), (0, {3}, (False, False))],
)
def test_environment_describes_how_packets_are_delayed(affinity, monkeypatch, status, processors, found):
    affinity[0] = processors
    written = delays_without_a_process(monkeypatch, nodes_whose_programs_end(status)).environment()
    assert (written["by"], written["realtime"]) == ("acapella-link", False)
    assert (written["reserved"], written["steered"]) == found


@pytest.mark.parametrize("failing", ["assign", "steer"])
def test_link_is_stopped_if_the_processors_cannot_be_set(affinity, monkeypatch, failing):
    nodes = nodes_whose_programs_end()
    monkeypatch.setattr(ReservedCpu, failing, Mock(side_effect=OSError))
    with pytest.raises(OSError):
        delays_without_a_process(monkeypatch, nodes)
    nodes.start_link.return_value.close.assert_called_once_with()
    assert affinity[0] == {1, 4, 6}
