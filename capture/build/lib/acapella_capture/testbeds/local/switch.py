"""What the local testbed asks of a kind of switch: links, ports, mirror ports for listening nodes, mirrors."""

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
    """A mirror that can be taken away."""

    @abstractmethod
    def remove(self) -> None:
        """End the copying, and give the receiver free."""


class Switches(ABC):
    """The switches of all sites."""

    note: str | None  # for readers of a sample
    receivers: int  # of a listening node

    def __init__(self, network: "Network"):
        self.network = network

    @abstractmethod
    def programs(self) -> dict[str, str]:
        """The programs it needs, with their Debian packages."""

    @abstractmethod
    def links(self, site: int) -> list[Link]:
        """The links of a site to its hosts, within it, and to the next site."""

    @abstractmethod
    def build(self) -> None:
        """Make the switches out of links that are there."""

    @abstractmethod
    def hardware(self, site: str) -> tuple[Host, ...]:
        """The machines of a site that instances are put on."""

    @abstractmethod
    def attach(self, site: str, number: int) -> Instance:
        """Make a site's n-th listening node (from 1) and its mirror ports."""

    @abstractmethod
    def detach(self, site: str, number: int) -> None:
        """Take a listening node and its mirror ports away; harmless where there is none."""

    @abstractmethod
    def node(self, site: str, number: int) -> str:
        """The name of a site's n-th listening node."""

    @abstractmethod
    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> LocalMirror:
        """A mirror of a port that is there."""
