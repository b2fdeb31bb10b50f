"""The listening nodes of a site's slice: their names, and the setup of their receivers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from acapella_core.errors import UserError

from .. import nic_settings
from ..base import CompletedProgram, Instance
from ..nic_settings import NicSettings
from .nodes import packages
from .session import GRAPH_LOCK

NODE = re.compile(r"(.+)-listener(\d+)")
# A receiver must not send: NetworkManager, which FABRIC's Rocky images use (AMHandlers 18c9f98, playbook
# nmcli_config_nw_interface), would request an address. The kernel would solicit routers and accept mirrored router
# advertisements (Linux, ip-sysctl, accept_ra). The MTU is 9216 or 9000, the largest that the NIC accepts, so that
# mirrored jumbo frames are received; if it accepts neither, the MTU stays at FABRIC's default.
SET_UP = (
    packages.DEFINE
    + """set -e
wait_for_boot
for dev; do
    if command -v nmcli > /dev/null; then nmcli device set "$dev" managed no || echo "nmcli: $dev"; fi
    sysctl -q -w "net/ipv6/conf/$dev/disable_ipv6=1" || echo "IPv6 of $dev is unchanged"
    ip link set dev "$dev" mtu 9216 || ip link set dev "$dev" mtu 9000 || echo "the MTU of $dev is unchanged"
    ip link set dev "$dev" up
done
get() {
    command -v "$1" > /dev/null || add_package "$1" "$1"
}
get zstd || echo "no zstd: captures are fetched uncompressed"
get ethtool || echo "no ethtool: offloads are unchanged"
get tcpdump
"""
)
SET_UP_S = 600
CLOCK = "timedatectl show --property=NTPSynchronized --value"  # yes, no, or nothing if it is unknown


@dataclass
class SiteSlice:
    """A site's slice: its instances, FABRIC's objects of its nodes, and data about their receivers."""

    slice_id: str
    instances: tuple[Instance, ...]
    nodes: dict[str, Any]
    interfaces: dict[tuple[str, str], str]  # FABRIC's name, by instance and receiver
    rates: dict[str, int | None]  # receiver rate by instance
    nics: dict[tuple[str, str], NicSettings] = field(default_factory=dict)  # by instance and receiver


def set_up(
    run: Callable[..., CompletedProgram], name: str, receivers: Sequence[str]
) -> tuple[dict[str, NicSettings], list[str]]:
    """Prepare the receivers of a node, with offloads turned off. Return their settings, and notes.

    `run` runs a program on the node, as Testbed.run does. Raises UserError if captures would be impossible.
    """
    result = run(name, ["sh", "-c", SET_UP, "sh", *receivers], timeout_s=SET_UP_S)
    if result.status != 0:
        message = (result.stderr or result.stdout).strip().splitlines()
        raise UserError(f"setup failed: {message[-1] if message else result.status}", where=f"node {name}")
    result = run(name, ["sh", "-c", nic_settings.SCRIPT, "sh", *receivers], timeout_s=SET_UP_S)
    settings = nic_settings.parse(result.stdout)
    clock = run(name, ["sh", "-c", CLOCK], timeout_s=SET_UP_S).stdout.strip()
    notes = [f"{receiver} of {name}: offloads cannot be turned off: {', '.join(nic.enabled())}"
             for receiver, nic in settings.items() if nic.enabled()]  # fmt: skip
    if clock == "no":
        notes.append(
            f"the clock of {name} was not synchronized: times of its captures may differ from those of other nodes"
        )
    return settings, notes


def instances_in(fabric_slice: Any, prefix: str) -> list[str]:
    """Return the names of our nodes in a slice, `<prefix>-listener1`, ..., ordered by number."""
    with GRAPH_LOCK:
        names = [str(name) for name in fabric_slice.get_fim_topology().nodes]
    matches = [match for match in map(NODE.fullmatch, names) if match and match[1] == prefix]
    return [match[0] for match in sorted(matches, key=lambda match: int(match[2]))]
