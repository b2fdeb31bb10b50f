"""Defines the interface of a kind of switch: links, ports, mirror ports for listening nodes, mirrors."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Direction, Host, Instance, Mirror

if TYPE_CHECKING:
    from .network import Network


@dataclass(frozen=True)
class Link:
    """A pair of interfaces, each (node, name)."""

    near: tuple[str, str]
    far: tuple[str, str]
    mtu: int


class LocalMirror(Mirror):
    """A mirror that can be removed."""

    @abstractmethod
    def remove(self) -> None:
        """Stop copying, and free the receiver."""


class Switches(ABC):
    """The switches of all sites."""

    note: str | None  # note for manifests
    receivers: int  # per listening node

    def __init__(self, network: "Network"):
        self.network = network

    @abstractmethod
    def programs(self) -> dict[str, str]:
        """Return the programs that the switches need, with their Debian packages."""

    @abstractmethod
    def links(self, site: int) -> list[Link]:
        """Return the links of a site: to its hosts, within it, and to the next site."""

    @abstractmethod
    def build(self) -> None:
        """Build the switches on existing links."""

    @abstractmethod
    def hardware(self, site: str) -> tuple[Host, ...]:
        """Return a site's machines for listening nodes."""

    @abstractmethod
    def attach(self, site: str, number: int) -> Instance:
        """Create a site's n-th listening node (from 1) and its mirror ports."""

    @abstractmethod
    def detach(self, site: str, number: int) -> None:
        """Remove a listening node and its mirror ports, if they exist."""

    @abstractmethod
    def node(self, site: str, number: int) -> str:
        """Return the name of a site's n-th listening node."""

    @abstractmethod
    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> LocalMirror:
        """Return a mirror of an existing port."""
