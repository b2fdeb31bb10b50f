"""Moves the mirrors of a slice to their ports.

FABRIC accepts a new mirror on a receiver only after the old one has been removed, so a move takes two modifications of
the slice (fabric.move_in_two_steps): remove, wait, add.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import Direction, MirrorRequest
from . import mirrors
from .credentials import WHERE
from .session import graph_access
from .slices import Slices

MIRROR_HANGS = "increase fabric.mirror_timeout_s, or set fabric.move_mirrors: false if this happens again"

Receiver = tuple[str, str]  # instance and receiver
Position = tuple[str, Direction]  # port and direction


class Moves:
    """The mirrors of a collection: `positions` contains those that are known to be active."""

    def __init__(self, slices: Slices, settings: FabricSettings):
        self.positions: dict[Receiver, Position] = {}
        self.notes: list[str] = []
        self._slices = slices
        self._settings = settings

    def forget(self, instance: str) -> None:
        """Discard the mirrors of an instance."""
        for key in [key for key in self.positions if key[0] == instance]:
            del self.positions[key]

    def move(self, slice_id: str, interfaces: Mapping[Receiver, str], requests: Sequence[MirrorRequest]) -> Any | None:
        """Move mirrors to their ports. Return FABRIC's object of the changed slice; None if all are already there.

        Raises UserError if not all mirrors are active afterwards.
        """
        wanted = {(request.instance.name, request.receiver): request for request in requests}
        if all(self.positions.get(key) == position(request) for key, request in wanted.items()):
            return None
        fabric_slice = self._wait_until_idle(slice_id)
        current = self._read(fabric_slice, interfaces)
        wanted = {key: request for key, request in wanted.items() if current[key] != position(request)}
        self._check_fixed(current, wanted)
        if not wanted:
            return None
        obsolete = self._obsolete(fabric_slice, interfaces, current, wanted)
        for key in obsolete:
            self.positions.pop(key, None)
        self._remove(fabric_slice, interfaces, obsolete)
        if obsolete and self._settings.move_in_two_steps:
            fabric_slice = self._modify(fabric_slice, interfaces, {})
        with graph_access("cannot describe the mirrors"):
            for key, request in wanted.items():
                mirrors.add_mirror(fabric_slice, request, interfaces[key])
        fabric_slice = self._modify(fabric_slice, interfaces, wanted)
        self.positions.update({key: position(request) for key, request in wanted.items()})
        return fabric_slice

    def _wait_until_idle(self, slice_id: str) -> Any:
        return self._slices.wait_until_idle(slice_id, self._settings.mirror_timeout_s, MIRROR_HANGS)

    def _read(self, fabric_slice: Any, interfaces: Mapping[Receiver, str]) -> dict[Receiver, Position | None]:
        """Return the active mirror of each receiver, including mirrors that an earlier collection left."""
        with graph_access("cannot read the mirrors"):
            current = {
                key: mirrors.mirrored_port(end_of(fabric_slice, key, interface))
                for key, interface in interfaces.items()
            }
        self.positions.update({key: position_ for key, position_ in current.items() if position_})
        return current

    def _check_fixed(
        self, current: Mapping[Receiver, Position | None], wanted: Mapping[Receiver, MirrorRequest]
    ) -> None:
        """Raise UserError if a mirror would move although the config forbids it."""
        for name, receiver in wanted:
            active = current[name, receiver]
            if active and not self._settings.move_mirrors:
                unchanged = f"{receiver} of {name} stays on {active[0]} ({active[1]})"
                raise UserError(f"{unchanged}: fabric.move_mirrors is false", where=WHERE)

    def _obsolete(
        self,
        fabric_slice: Any,
        interfaces: Mapping[Receiver, str],
        current: Mapping[Receiver, Position | None],
        wanted: Mapping[Receiver, MirrorRequest],
    ) -> list[Receiver]:
        """Return the receivers whose services have to be removed, failed ones included.

        FABRIC mirrors a port only once, so any other mirror of ours on a wanted port is also removed.
        """
        ports = {request.port for request in wanted.values()}
        with graph_access("cannot read the mirrors"):
            occupied = [
                key
                for key, interface in interfaces.items()
                if end_of(fabric_slice, key, interface).get_network() is not None
            ]
        return [key for key in occupied if key in wanted or (current[key] and current[key][0] in ports)]

    def _remove(self, fabric_slice: Any, interfaces: Mapping[Receiver, str], keys: Sequence[Receiver]) -> None:
        with graph_access("cannot describe the mirrors"):
            for key in keys:
                mirrors.remove_mirror(end_of(fabric_slice, key, interfaces[key]))

    def _modify(
        self, fabric_slice: Any, interfaces: Mapping[Receiver, str], wanted: Mapping[Receiver, MirrorRequest]
    ) -> Any:
        """Submit the changes. Raises UserError unless the wanted mirrors are active and no other mirror was added.

        After a service of a slice has failed, FABRIC may report every later modification as failed, so the mirrors
        themselves are compared.
        """
        slice_id = fabric_slice.get_slice_id()
        try:
            return self._slices.modify(fabric_slice, self._settings.mirror_timeout_s, MIRROR_HANGS)
        except UserError as error:
            if self._slices.stopping.is_set():
                raise
            changed = self._wait_until_idle(slice_id)
            with graph_access("cannot read the mirrors"):
                active = {
                    key: mirrors.mirrored_port(end_of(changed, key, interfaces[key])) for key in wanted or interfaces
                }
            expected = {key: position(request) for key, request in wanted.items()}
            if wanted and active != expected:
                raise
            if not wanted and any(active[key] and key not in self.positions for key in active):
                raise
            note = f"FABRIC reported a failed modification, but all mirrors were active: {error}"
            if note not in self.notes:
                self.notes.append(note)
            return changed


def position(request: MirrorRequest) -> Position:
    return request.port, request.direction


def end_of(fabric_slice: Any, key: Receiver, interface: str) -> Any:
    """Return FABRIC's object of a receiver, not from its cache."""
    return fabric_slice.get_node(key[0]).get_interface(name=interface, refresh=True)
