"""Collections that end or are interrupted, and the check that nothing is left afterwards."""

import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from acapella_testing.capture.process_tree import Tree
from acapella_testing.new_files import new_directory, write_file

END_S = 180  # reached only if the collection hangs


def tree_when(process: subprocess.Popen, busy: str) -> Tree:
    """Return the process tree once it includes a program named ``busy``."""
    end = time.monotonic() + END_S
    while busy not in (tree := Tree.below(process.pid)).programs():
        tree.close()
        assert process.poll() is None and time.monotonic() < end, f"no {busy} was seen"
        time.sleep(0.02)
    return tree


def ends_without_leftovers(
    caller, campaign: Path, config: str, number: signal.Signals | None, moment: tuple[str, str] = ("", "tcpdump")
) -> int:
    """Start a collection, send it a signal at a given moment, and return its exit status.

    ``moment``: a prefix and a program. A sample whose name has this prefix has been captured, then the program runs.
    Without a signal, this function does not wait for the program: on a busy machine, the collection may end before it
    sees a program that runs only briefly. Fails if a process, namespace, interface, mount or incomplete file is left.
    """
    after, busy = moment
    path = write_file(campaign.with_suffix(".yaml"), config)
    temporary = new_directory(campaign.with_name(f"{campaign.name}-tmp"))
    temporary.chmod(0o777)
    caller = replace(caller, environment={**caller.environment, "TMPDIR": str(temporary)})
    with caller.start(campaign, "--config", path) as process:
        assert any(line.startswith(after) and line.endswith("frames\n") for line in process.stdout)
        with tree_when(process, busy) if number else Tree.below(process.pid) as tree:
            assert any("net:" in namespace for namespace in tree.namespaces) or caller.prefix
            # 3: outer collection, unshare, inner collection; 4: and the program; 6: with tcpdump, a server and a client
            assert len(tree.members) >= (3 if number is None else 6 if busy == "tcpdump" else 4)
            if number:
                process.send_signal(number)
            status = process.wait(END_S)
            # does not wait for the end of the output, which leftover processes keep open
            left = tree.gone_within(60)
    assert left == [], left
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert (
        re.findall(r"\b(?:port\d|uplink-site|mirror\d|capture\d|br[01]|replay|direct-|edge|core|manage\d)", links) == []
    )
    assert "acapella" not in Path("/proc/self/mounts").read_text()
    parts = [path.name for path in (campaign / "raw").iterdir() if path.name.endswith(".part")]
    # incomplete files of a killed collection are hidden, and removed by the next one (coordinator.py)
    assert all(name.startswith(".") for name in parts) if number == signal.SIGKILL else parts == [], parts
    assert list(temporary.iterdir()) == []
    assert not {"net", "spool", "www", "ssh", "ovs", "snmp"} & {path.name for path in Path("/dev/shm").iterdir()}
    return status
