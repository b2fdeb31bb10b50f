"""FABRIC's client in other processes, such as the kernel of a notebook, with the nodes of a FABRIC on loopback.

A `sitecustomize` module calls `install`. When the client is imported, the functions of loopback.PATCHES are replaced,
and so is the validation of keys at FABRIC's portal, which is not simulated.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
from pathlib import Path
from types import ModuleType

from acapella_testing.new_files import write_file

VARIABLE = "ACAPELLA_LOOPBACK_NODES"  # JSON: port of the nodes, file with the key of the bastion host
SITECUSTOMIZE = "from acapella_testing.fabric import processes\n\nprocesses.install()\n"
FABLIB, NODE = "fabrictestbed_extensions.fablib.fablib", "fabrictestbed_extensions.fablib.node"
UTILS = "fabrictestbed_extensions.utils.utils"


def environment(nodes, directory: Path) -> dict[str, str]:
    """Return the environment of processes that use the nodes; ``directory``: where its files are written."""
    key = nodes.bastion_key_file(directory)
    write_file(directory / "site" / "sitecustomize.py", SITECUSTOMIZE)
    return {"PYTHONPATH": str(directory / "site"), VARIABLE: json.dumps([nodes.port, str(key)])}


def install() -> None:
    """Patch FABRIC's client as soon as it is imported."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, Finder())


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules and patches them after their import."""

    def find_spec(self, fullname, path, target=None):
        if fullname not in (FABLIB, NODE, UTILS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module
        return spec


def patch(module: ModuleType) -> None:
    """Replace the functions of a module that would connect to other machines."""
    if module.__name__ == UTILS:
        module.Utils.is_reachable = staticmethod(lambda **_: True)
    elif module.__name__ == FABLIB:
        module.FablibManager.verify_and_configure = lambda *_, **__: True
        module.FablibManager.probe_bastion_host = lambda *_: True
    else:
        module.Node._get_ssh_connection = connection


def connection(node, **_):
    """Return connections to the bastion host and to a node, as FABRIC's client does."""
    import paramiko  # noqa: PLC0415 (slow)
    from acapella_testing.fabric.nodes import bastion, connect  # noqa: PLC0415

    port, key = json.loads(os.environ[VARIABLE])
    with node._ssh_lock:
        if not (node._ssh_client and node._ssh_client.get_transport().is_active()):
            node._ssh_client = connect(port, node.get_name())
            node._ssh_bastion = bastion(paramiko.ECDSAKey.from_private_key_file(key))
        return node._ssh_bastion, node._ssh_client
