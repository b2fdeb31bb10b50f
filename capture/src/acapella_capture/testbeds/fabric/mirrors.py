"""Port mirrors: services of a slice, each from one switch port to one interface of a listening node's NIC.

The port of a service cannot be changed (FABRIC detects no such change), so a mirror moves by deleting the service and
adding one with a new name. FABRIC copies frames as long as the service exists: `start` and `stop` have no effect here.
"""

import re
import time
from typing import Any

from acapella_core.errors import UserError

from ..base import Instance, Mirror, MirrorCounters, MirrorRequest
from .credentials import WHERE
from .resources import port_name

FAILED_SERVICE = ("Failed", "Closed", "CloseFail")
DEDICATED = ("SmartNIC", "FPGA")  # FABRIC's client also accepts a shared NIC as a receiver, which then gets no frames


class FabricMirror(Mirror):
    """An active mirror."""

    def __init__(self, instance: str, interface: str):
        self.instance = instance
        self.interface = interface

    def start(self) -> None:
        """Do nothing: FABRIC copies frames as soon as the mirror exists."""

    def stop(self) -> None:
        """Do nothing: FABRIC copies frames until the mirror moves."""

    def counters(self) -> MirrorCounters:
        return MirrorCounters()  # FABRIC provides no counters of mirrors


def service_name(instance: Instance, receiver: str) -> str:
    """Return a new name each time: FABRIC would mistake a reused name for the old service."""
    return f"mirror-{instance.name}-{re.sub(r'[^A-Za-z0-9]', '', receiver)}-{time.time_ns() // 1000:x}"


def check_receiver(interface: Any) -> None:
    """Raise UserError if an interface belongs to a shared NIC, which cannot receive a mirror."""
    kind = str(interface.get_component().get_type())
    if kind not in DEDICATED:
        raise UserError(f"{interface.get_name()} belongs to a {kind}: a mirror needs a dedicated NIC", where=WHERE)


def remove_mirror(interface: Any) -> None:
    """Remove the mirror that ends at an interface from the slice object."""
    service = interface.get_network()
    if service is not None:
        service.delete()


def add_mirror(fabric_slice: Any, request: MirrorRequest, interface: str) -> None:
    """Add a mirror to a slice object, to an interface (FABRIC's name) that receives none."""
    current = fabric_slice.get_node(request.instance.name).get_interface(
        name=interface, refresh=True
    )  # the cached object still has the old mirror
    check_receiver(current)
    port, _, vlan = request.port.partition(".")  # without a VLAN, frames of all users of a shared port would be copied
    fabric_slice.add_port_mirror_service(
        name=service_name(request.instance, request.receiver),
        mirror_interface_name=port,
        mirror_interface_vlan=vlan or None,
        receive_interface=current,
        mirror_direction=request.direction,
    )


def mirrored_port(interface: Any) -> tuple[str, str] | None:
    """Return the port and direction that an interface receives; None if it receives none, or its service failed."""
    network = interface.get_network()
    service = network.get_fim() if network is not None else None
    reservation = getattr(service, "reservation_info", None)
    if reservation is not None and reservation.reservation_state in FAILED_SERVICE:
        return None
    port = getattr(service, "mirror_port", None)
    if port is None:
        return None
    direction = str(getattr(service, "mirror_direction", "both")).lower()
    vlan = getattr(service, "mirror_vlan", None)
    return f"{port}.{vlan}" if vlan else port, next(
        (kind for kind in ("rx", "tx") if direction.startswith(kind)), "both"
    )


def switch_port(interface: Any) -> str | None:
    """Return the switch port of an interface; None if FABRIC does not report it (yet)."""
    try:
        name = interface.get_peer_port_name()
    except AttributeError:  # raised by the client for an interface that is not in a service yet
        return None
    return port_name(name) if name else None
