"""Configures the NIC that receives a mirror, as Patchwork does on its listening nodes.

Generic receive offload merges TCP segments before the capture program sees them, so sizes, counts and gaps of frames
are wrong. Large receive offload does the same in the NIC. VLAN offload removes the tag from the frame. A longer receive
ring holds longer bursts.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

OFFLOADS = {"gro": "generic-receive-offload", "lro": "large-receive-offload", "rxvlan": "rx-vlan-offload"}
# For a node that captures its own frames: sent frames are captured before the NIC or the kernel splits segments,
# computes checksums, and adds tags.
HOST_OFFLOADS = OFFLOADS | {
    "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload", "tx": "tx-checksumming",
    "txvlan": "tx-vlan-offload",
}  # fmt: skip
RX_RING = 4096  # descriptors; a NIC with a shorter maximum gets its maximum
LINK_HEADER_BYTES = 14 + 2 * 4  # Ethernet with two VLAN tags, which the MTU does not include
PRINT = """echo "interface $dev"
    ip -o link show dev "$dev"
    ethtool -k "$dev" 2> /dev/null
    ethtool -g "$dev" 2> /dev/null"""
# Configures the interfaces given as arguments, except for what a NIC does not support, and prints their settings.
SCRIPT = f"""for dev; do
    for feature in {" ".join(OFFLOADS)}; do ethtool -K "$dev" "$feature" off 2> /dev/null; done
    maximum=$(ethtool -g "$dev" 2> /dev/null | sed -n "s/^RX:[[:space:]]*//p" | head -n 1)
    ethtool -G "$dev" rx {RX_RING} 2> /dev/null || ethtool -G "$dev" rx "$maximum" 2> /dev/null
    {PRINT}
done
true
"""
# Prints the settings of the interfaces given as arguments, without changing them.
READ = f"""for dev; do
    {PRINT}
done
true
"""


@dataclass(frozen=True)
class NicSettings:
    """Settings of an interface; None if unknown. `offloads` contains the state of each of OFFLOADS or HOST_OFFLOADS."""

    mtu: int | None
    rx_ring: int | None
    offloads: Mapping[str, bool | None]

    def as_manifest(self) -> dict[str, Any]:
        """Return manifest key `nic`."""
        return asdict(self)

    def enabled(self) -> list[str]:
        """Return the enabled offloads that distort captures."""
        return [name for name, state in self.offloads.items() if state]

    def longest_frame_bytes(self) -> int | None:
        """Return the length of the longest frame that the interface accepts from a wire, without FCS."""
        return None if self.mtu is None else self.mtu + LINK_HEADER_BYTES


def parse(text: str, offloads: Mapping[str, str] = OFFLOADS) -> dict[str, NicSettings]:
    """Return the settings of each interface from the output of SCRIPT or READ. `offloads`: features by name."""
    parts = re.split(r"(?m)^interface (\S+)$", text)
    return {name: parse_interface(part, offloads) for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def parse_interface(text: str, offloads: Mapping[str, str] = OFFLOADS) -> NicSettings:
    """Return the settings of one interface from the output of ip and ethtool."""
    mtu = re.search(r"\bmtu ([0-9]{1,9})\b", text)
    rings = re.findall(r"(?m)^RX:\s*([0-9]{1,9})$", text)  # the maximum, then the current value
    states = {name: re.search(rf"(?m)^\s*{feature}: (on|off)\b", text) for name, feature in offloads.items()}
    return NicSettings(
        int(mtu[1]) if mtu else None,
        int(rings[1]) if len(rings) > 1 else None,
        {name: found[1] == "on" if found else None for name, found in states.items()},
    )


def too_long_note(settings: NicSettings | None, longest_bytes: int | None) -> str | None:
    """Return the warning if a captured frame is longer than the interface accepts; None if not, or unknown."""
    limit = settings.longest_frame_bytes() if settings else None
    if limit is None or longest_bytes is None or longest_bytes <= limit:
        return None
    return (
        f"the longest frame has {longest_bytes} bytes, more than an MTU of {settings.mtu} allows: frames were merged "
        "before the capture, so sizes, counts and gaps are wrong"
    )
