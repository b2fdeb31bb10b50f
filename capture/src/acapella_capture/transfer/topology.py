"""Built-in topologies, and the ports of flows. acapella_core.topology reads topology files."""

from pathlib import Path

from acapella_core import topology

BUILT_IN = Path(__file__).with_name("topologies")
SERVER_PORT = 5201  # port of flow 0; the others follow
CLIENT_PORT = 40001


def read_topology(name_or_path: str) -> topology.Topology:
    """Read a built-in topology by name, or a file. Raises UserError naming the wrong key."""
    built_in = BUILT_IN / f"{name_or_path}.yaml"
    return topology.read(built_in if built_in.is_file() else Path(name_or_path))
