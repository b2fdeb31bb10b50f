"""Free and allocated resources of a site's hosts for listening nodes; they are finite, so an allocation can fail."""

from dataclasses import replace

from ..base import Host, InsufficientResources, ResourceRequest


class Inventory:
    """The hosts of one site; a node is placed on the first host with enough free resources."""

    def __init__(self, site: str, hosts: tuple[Host, ...]):
        self._site = site
        self._hosts = hosts
        self._allocated: dict[str, tuple[str, ResourceRequest]] = {}  # by node: its host and its resources

    def free(self) -> tuple[Host, ...]:
        """Return the hosts with their free resources."""
        return tuple(self._free(host) for host in self._hosts)

    def allocate(self, node: str, request: ResourceRequest) -> None:
        """Allocate a NIC and the resources of one instance. Raises InsufficientResources if no host has them."""
        for host in self.free():
            if (
                host.nics
                and host.cores >= request.cores
                and host.ram_gb >= request.ram_gb
                and host.disk_gb >= request.disk_gb
            ):
                self._allocated[node] = (host.name, request)
                return
        needed = f"{request.cores} cores, {request.ram_gb} GB of memory, {request.disk_gb} GB of disk and a NIC"
        raise InsufficientResources(f"no host has {needed} left", where=f"site {self._site}")

    def release(self, node: str) -> None:
        """Release the resources of a node, if it has any."""
        self._allocated.pop(node, None)

    def _free(self, host: Host) -> Host:
        requests = [request for name, request in self._allocated.values() if name == host.name]
        return replace(
            host,
            cores=host.cores - sum(request.cores for request in requests),
            ram_gb=host.ram_gb - sum(request.ram_gb for request in requests),
            disk_gb=host.disk_gb - sum(request.disk_gb for request in requests),
            nics=host.nics - len(requests),
        )
