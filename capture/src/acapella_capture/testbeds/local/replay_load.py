"""Generates the noise of replays: TCP streams on the link between the sites."""

from .network import Network
from .processes import LocalJob, start, terminate
from .services import Services

PORT = 5300


class Load:
    """iperf3 TCP streams at full speed between hosts that do not replay."""

    def __init__(self, network: Network, streams: int):
        self._client, self._server = network.hosts(1)[1], network.hosts(2)[1]
        self._streams = streams
        self._services = Services()
        self._job: LocalJob | None = None
        self._server_error: str | None = None

    def start(self) -> None:
        """Start or restart server and client."""
        self.stop()
        self._server_error = self._services.iperf3({0: (self._server, PORT)}).get(0)
        if self._server_error is None:
            argv = ["iperf3", "-c", self._server.address(4), "-p", str(PORT), "-t", "0", "-P", str(self._streams)]
            self._job = start(self._client.name, argv)

    def stop(self) -> None:
        """Stop sending."""
        if self._job:
            terminate([self._job])
        self._services.end_iperf3([0])

    def fault(self) -> str | None:
        """Return why the load is not running; None if it is."""
        if self._server_error or self._job is None:
            return self._server_error or "not started"
        return None if self._job.poll() is None else self._job.last_line()
