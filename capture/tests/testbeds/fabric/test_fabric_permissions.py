"""What a collection requests with the permissions (tags) of a FABRIC project, and the names of missing ones."""

import re

import pytest
from acapella_testing.fabric.graphs import graph
from acapella_testing.fabric.loopback import SITE
from acapella_testing.fabric.orchestrator import TAGS

from acapella_capture.testbeds.base import ResourceRequest
from acapella_core.errors import UserError


@pytest.mark.parametrize(
    ("lacking", "request_", "named"),
    [
        ("Net.PortMirroring", ResourceRequest(1), "Net.PortMirroring"),
        ("VM.NoLimit", ResourceRequest(1, ram_gb=16), "VM.NoLimitRAM or VM.NoLimit"),
        ("VM.NoLimit", ResourceRequest(1, cores=4), "VM.NoLimitCPU or VM.NoLimit"),
    ],
)
def test_missing_permission_is_named_before_a_slice_is_requested(fabric, lacking, request_, named):
    """FABRIC's policy does not know Net.PortMirror."""
    fabric.orchestrator.tags = (*(tag for tag in TAGS if tag != lacking), "Net.PortMirror")
    with fabric.testbed() as testbed, pytest.raises(UserError, match=re.escape(f"lacks the permission {named}")):
        testbed.allocate(SITE, request_)
    assert fabric.orchestrator.posts("/slices/creates") == 0


@pytest.mark.parametrize(("tag", "disk_gb"), [("", 10), ("VM.NoLimit", 100), ("VM.NoLimitDisk", 100)])
def test_disk_is_smaller_without_permission(fabric, tag, disk_gb):
    fabric.orchestrator.tags = (*(each for each in TAGS if each != "VM.NoLimit"), tag)
    with fabric.allocated():
        (created,) = fabric.orchestrator.alive()
        assert [node.capacities.disk for node in graph(created.model).nodes.values()] == [disk_gb]


@pytest.mark.parametrize(
    ("tag", "nics", "rate_gbps"), [("Component.SmartNIC", 4, 100), ("Component.SmartNIC_ConnectX_5", 2, 25)]
)
def test_only_permitted_nic_models_are_planned_and_used(fabric, tag, nics, rate_gbps):
    """Each of two hosts has a ConnectX-5 and a ConnectX-6. One tag permits all dedicated NICs."""
    fabric.orchestrator.tags = ("Net.PortMirroring", tag, "VM.NoLimit")
    with fabric.testbed() as testbed:
        assert sum(host.nics for host in testbed.resources(SITE)) == nics
        (instance,) = testbed.allocate(SITE, ResourceRequest(1))
        assert testbed.mirror_capacity_bps(instance, instance.receivers[0]) == rate_gbps * 10**9


def test_missing_permission_for_nics_is_named(fabric):
    fabric.orchestrator.tags = ("Net.PortMirroring", "VM.NoLimit")
    with fabric.testbed() as testbed:
        assert sum(host.nics for host in testbed.resources(SITE)) > 0
        tags = "Component.SmartNIC_ConnectX_6 or Component.SmartNIC_ConnectX_5 or Component.SmartNIC"
        with pytest.raises(UserError, match=f"lacks the permission {tags};"):
            testbed.allocate(SITE, ResourceRequest(1))
