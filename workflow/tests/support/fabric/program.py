"""Run `acapella` in a separate process with the FABRIC on loopback: `python -m ... PORT BASTION_KEY ARGUMENTS`.

PORT is the port of the nodes' SSH server. Snakemake runs jobs with bash, in which a function `acapella` runs this
instead of `acapella collect`.
"""

import sys

import paramiko
import pytest
from acapella_testing.fabric.loopback import Loopback, replace_functions
from acapella_testing.fabric.nodes import bastion, connect

from acapella.cli.entry import main

SHELL = """acapella() {{
    if [ "$1" = collect ]; then {python} -m {module} {port} {key} "$@"; else command acapella "$@"; fi
}}
"""


def environment(fabric: Loopback) -> dict[str, str]:
    """Return the environment in which bash collects from a FABRIC on loopback."""
    key, functions = fabric.nodes.bastion_key_file(fabric.directory), fabric.directory / "functions.sh"
    functions.write_text(SHELL.format(python=sys.executable, module=__spec__.name, port=fabric.nodes.port, key=key))
    return {"BASH_ENV": str(functions)}


if __name__ == "__main__":
    port, key = int(sys.argv[1]), paramiko.ECDSAKey.from_private_key_file(sys.argv[2])
    sys.argv[0:3] = ["acapella"]
    with pytest.MonkeyPatch.context() as patch:
        replace_functions(patch, lambda name: (bastion(key), connect(port, name)))
        sys.exit(main())
