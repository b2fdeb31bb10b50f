"""Allocation of listening nodes on free resources, with backoff."""

from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.plan.allocation import SiteAllocation, allocate_with_backoff, instances_needed, nodes_that_fit
from acapella_capture.testbeds.base import Host, Instance, InsufficientResources, ResourceRequest

HOSTS = (Host("a", 4, 64, 1000, 1), Host("b", 3, 64, 1000, 6))


def test_nodes_are_placed_per_host_not_by_the_sum_of_a_site():
    assert nodes_that_fit(HOSTS, ResourceRequest(2)) == (2, None)
    count, why = nodes_that_fit(HOSTS, ResourceRequest(4))
    assert count == 2  # host a has one NIC, host b has cores for one node; all cores together would suffice for three
    assert why == "room for 2 of 4 listening nodes: none of 2 hosts has all resources that a node needs"
    assert nodes_that_fit((Host("a", 9, 99, 9999, 0),), ResourceRequest(1)) == (
        0, "room for 0 of 1 listening node: 0 dedicated NICs free on 1 host",
    )  # fmt: skip
    assert nodes_that_fit((), ResourceRequest(1))[0] == 0


@given(
    hosts=st.lists(st.builds(Host, st.just("h"), *[st.integers(0, n) for n in (64, 256, 3000, 6)]), max_size=5),
    wanted=st.integers(1, 12),
)
def test_placed_nodes_fit_onto_the_hosts(hosts, wanted):
    count, why = nodes_that_fit(hosts, ResourceRequest(wanted))
    assert 0 <= count <= min(wanted, sum(host.nics for host in hosts))
    assert count * 2 <= sum(host.cores for host in hosts)
    assert (why is None) == (count == wanted)


class ScarceTestbed:
    """A testbed that advertises more than it allocates."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.requested_counts: list[int] = []

    def resources(self, site):
        return (Host("h", 64, 512, 5000, 5),)

    def instances(self, site):
        return ()

    def allocate(self, site, request):
        self.requested_counts.append(request.instances)
        if request.instances > self.capacity:
            raise InsufficientResources("no storage", where=f"site {site}")
        return tuple(Instance(f"n{number}", site, ("r1", "r2")) for number in range(request.instances))


def test_allocation_retries_with_one_node_fewer():
    testbed = ScarceTestbed(capacity=3)
    allocated = allocate_with_backoff(testbed, "S", ResourceRequest(8))
    assert testbed.requested_counts == [5, 4, 3]
    assert (len(allocated.instances), allocated.requested) == (3, 8)
    assert allocated.reason == "refused 4: site S: no storage"
    assert [(node.name, name) for node, name in allocated.receivers()][:4] == [
        ("n0", "r1"), ("n1", "r1"), ("n2", "r1"), ("n0", "r2"),
    ]  # fmt: skip
    assert allocate_with_backoff(ScarceTestbed(capacity=0), "S", ResourceRequest(2)) == SiteAllocation(
        (), 2, "refused 1: site S: no storage"
    )


def test_nodes_of_an_earlier_collection_are_reused_and_counted():
    testbed = ScarceTestbed(capacity=9)
    testbed.instances = lambda _: (Instance("n0", "S", ("r1", "r2")),) * 2
    assert len(allocate_with_backoff(testbed, "S", ResourceRequest(6)).instances) == 6
    assert testbed.requested_counts == [6]


def test_number_of_nodes_follows_the_number_of_ports():
    assert [instances_needed(ports, 2, None) for ports in (1, 2, 3, 8)] == [1, 1, 2, 4]
    assert instances_needed(8, 2, 3) == 3
