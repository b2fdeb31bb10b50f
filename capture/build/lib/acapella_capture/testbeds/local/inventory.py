"""What the hosts for listening nodes of a site have, and what the nodes took of it: finite, so that taking can fail."""

from dataclasses import replace

from ..base import Host, Refused, Want


class Inventory:
    """The hosts of one site; a node is put on the first host that has enough left."""

    def __init__(self, site: str, hosts: tuple[Host, ...]):
        self._site = site
        self._hosts = hosts
        self._taken: dict[str, tuple[str, Want]] = {}  # by node: its host and what it took

    def free(self) -> tuple[Host, ...]:
        """The hosts with what is left of them."""
        return tuple(self._left(host) for host in self._hosts)

    def take(self, node: str, want: Want) -> None:
        """Take a NIC and what one instance wants. Raises Refused where no host has that much left."""
        for host in self.free():
            if host.nics and host.cores >= want.cores and host.ram_gb >= want.ram_gb and host.disk_gb >= want.disk_gb:
                self._taken[node] = (host.name, want)
                return
        asked = f"{want.cores} cores, {want.ram_gb} GB of memory, {want.disk_gb} GB of disk and a NIC"
        raise Refused(f"no host has {asked} left", where=f"site {self._site}")

    def give(self, node: str) -> None:
        """Give back what a node took; harmless where it took nothing."""
        self._taken.pop(node, None)

    def _left(self, host: Host) -> Host:
        takes = [want for name, want in self._taken.values() if name == host.name]
        return replace(
            host,
            cores=host.cores - sum(want.cores for want in takes),
            ram_gb=host.ram_gb - sum(want.ram_gb for want in takes),
            disk_gb=host.disk_gb - sum(want.disk_gb for want in takes),
            nics=host.nics - len(takes),
        )
