"""Port mirrors: services of a slice, each from one switch port to one of our NIC's interfaces.

A service cannot be aimed anew (FABRIC does not see that as a change), so a mirror moves by deleting the service and
adding one under a new name. FABRIC copies from then on: `start` and `stop` of a mirror do nothing here.
"""

import re
import time
from typing import Any

from acapella_core.errors import UserError

from ..base import Instance, Mirror, MirrorCounters, MirrorRequest
from .credentials import WHERE
from .resources import port_name

DEDICATED = ("SmartNIC", "FPGA")  # FABRIC's client also takes a shared NIC as a receiver, which then gets nothing


class FabricMirror(Mirror):
    """A mirror that is in force."""

    def __init__(self, instance: str, interface: str):
        self.instance = instance
        self.interface = interface

    def start(self) -> None:
        """FABRIC copies since the mirror was made."""

    def stop(self) -> None:
        """FABRIC copies until the mirror moves on."""

    def counters(self) -> MirrorCounters:
        return MirrorCounters()  # FABRIC's switches tell no user what a mirror copied


def service_name(instance: Instance, receiver: str) -> str:
    """A new name each time: one that was used before would be taken for the old service."""
    return f"mirror-{instance.name}-{re.sub(r'[^A-Za-z0-9]', '', receiver)}-{time.time_ns() // 1000:x}"


def check_receiver(interface: Any) -> None:
    """Raises UserError where an interface cannot be the end of a mirror: it is of a shared NIC."""
    kind = str(interface.get_component().get_type())
    if kind not in DEDICATED:
        raise UserError(f"{interface.get_name()} is of a {kind}: a mirror needs a dedicated NIC", where=WHERE)


def remove_mirror(interface: Any) -> None:
    """Take the mirror that ends at an interface out of the slice's object."""
    before = interface.get_network()
    if before is not None:
        before.delete()


def add_mirror(fabric_slice: Any, request: MirrorRequest, interface: str) -> None:
    """Put a mirror into a slice's object, to an interface (FABRIC's name) that receives none."""
    fresh = fabric_slice.get_node(request.instance.name).get_interface(
        name=interface, refresh=True
    )  # it has cached its old mirror
    check_receiver(fresh)
    fabric_slice.add_port_mirror_service(
        name=service_name(request.instance, request.receiver),
        mirror_interface_name=request.port,
        receive_interface=fresh,
        mirror_direction=request.direction,
    )


def mirrored_port(interface: Any) -> tuple[str, str] | None:
    """The port and direction that an interface receives by now; None where it receives none."""
    network = interface.get_network()
    service = network.get_fim() if network is not None else None
    port = getattr(service, "mirror_port", None)
    if port is None:
        return None
    direction = str(getattr(service, "mirror_direction", "both")).lower()
    return port, next((word for word in ("rx", "tx") if direction.startswith(word)), "both")


def switch_port(interface: Any) -> str | None:
    """The port of the switch that an interface is plugged into; None where FABRIC does not tell (yet)."""
    try:
        name = interface.get_peer_port_name()
    except AttributeError:  # the client's own, of an interface that is in no service yet
        return None
    return port_name(name) if name else None
