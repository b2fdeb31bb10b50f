"""Run a command on a Slurm cluster on this machine, in separate namespaces: slurm_cluster.py DIRECTORY COMMAND...

`Cluster.start` runs this program as process 1 of new PID, network, mount and host name namespaces. It mounts DIRECTORY
over /etc/slurm, starts munged, slurmctld and a slurmd per node, runs COMMAND when the nodes are idle, and exits with
its status. When process 1 ends, the kernel ends every process of the cluster. All ports are on a private loopback
interface. While COMMAND runs, process 1 answers requests of the methods of `Cluster` over a Unix socket in DIRECTORY.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
ACCOUNTING = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
NAMESPACES = ("--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net", "--uts")
USER = ("--user", "--map-current-user", "--keep-caps")  # if we are not root; munged and slurmd do not need root
START_S = 120  # reached only if a daemon hangs
ADDRESS = "192.0.2.1"  # not the address of any machine, RFC 5737
NODES = ("n1", "n2")
FIRST_PORT = 16901  # port of slurmd of the first node; the next nodes have the next ports
# Without cgroups, which a container may not have. Slurm reports a node as down after SlurmdTimeout; nodes that are
# silent for half of it are not used. A requeued job is delayed by cred_expire. Jobs in partition `urgent` preempt jobs
# in the default partition.
CONFIGURATION = """
ClusterName=one
SlurmctldHost=localhost({address})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=cred_expire=30,socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdTimeout=6
KillWait=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-{nodes}] NodeHostname=localhost NodeAddr={address} Port=[{first}-{last}] CPUs={cpus} RealMemory={memory_mb}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL State=UP PriorityTier=2
"""
WITHOUT_ACCOUNTING = "AccountingStorageType=accounting_storage/none\n"
# As on most clusters: users belong to an account, and jobs of users without one are rejected.
WITH_ACCOUNTING = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={directory}/munge.socket
AccountingStorageEnforce=associations,limits
"""
DATABASE = """
DbdHost=localhost
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
PidFile={directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=root
StorageLoc=accounting
"""
ANY_MEMORY = "JobAcctGatherType=jobacct_gather/none\n"
LIMITED_MEMORY = """
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
"""


def missing(*, accounting: bool = False) -> str | None:
    """Return why the cluster cannot run on this machine; None if it can."""
    for program, package in (PROGRAMS | (ACCOUNTING if accounting else {})).items():
        if shutil.which(program, path=search_path()) is None:
            return f"no Slurm: {program} is missing (Debian package {package})"
    tried = subprocess.run([*unshare(), "true"], capture_output=True, text=True, check=False)
    return f"no namespaces on this machine: {tried.stderr.strip()}" if tried.returncode else None


def search_path() -> str:
    """Return PATH with the directories of system programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def unshare() -> list[str]:
    """Return the command that creates the namespaces."""
    return ["unshare", *(USER if os.geteuid() else ()), *NAMESPACES]


@dataclass
class Cluster:
    """A cluster of nodes with files in ``directory``, whose path must be short enough for its Unix sockets.

    ``accounting``: slurmdbd with MariaDB; ``over_memory_kill``: slurmd ends jobs that exceed their memory; ``cpus``:
    CPUs of each node (default: all of this machine); ``nodes``: number of nodes, the first ones of NODES.
    """

    directory: Path
    accounting: bool = False
    over_memory_kill: bool = False
    cpus: int | None = None
    nodes: int = len(NODES)

    def start(self, command: list[str], directory: Path, output: IO, environment: dict[str, str]) -> subprocess.Popen:
        """Start a command on the cluster, in a working directory. ``output``: file for both of its output streams."""
        options = {"accounting": self.accounting, "over_memory_kill": self.over_memory_kill}
        options |= {"cpus": self.cpus, "nodes": self.nodes}
        (self.directory / "options.json").write_text(json.dumps(options))
        return subprocess.Popen(
            [*unshare(), sys.executable, __file__, str(self.directory), *command],
            cwd=directory,
            env=os.environ | {"PYTHONSAFEPATH": "1"} | environment,
            stdin=subprocess.PIPE,  # closed when the test ends, even by a signal
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *command: str) -> str:
        """Run a command on the cluster, such as squeue, and return its output."""
        return self._ask("run", *command)

    def stop_daemon(self, name: str, number: int = signal.SIGTERM) -> None:
        """Stop slurmctld or slurmd of a node (slurmd-NODE) with a signal. After SIGTERM, slurmctld saves its state."""
        self._ask("stop_daemon", name, int(number))

    def start_daemon(self, name: str) -> None:
        """Restart a stopped daemon."""
        self._ask("start_daemon", name)

    def fail_node(self, node: str) -> None:
        """End all processes of a node at once, as a power failure does. Slurm notices it after SlurmdTimeout."""
        self._ask("fail_node", node)

    def launched(self) -> list[str]:
        """Return the identifiers of the batch jobs that the nodes started."""
        logs = "".join((self.directory / f"slurmd-{node}.log").read_text() for node in NODES[: self.nodes])
        return re.findall(r"Launching batch job (\S+)", logs)

    def _ask(self, *request: str | int) -> str:
        """Send a request to process 1 and return the answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.directory / "control"))
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile(encoding="utf-8") as answer:
                return answer.read()


class Daemons:
    """The daemons of the cluster, started by process 1 and changed by requests."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._running: dict[str, subprocess.Popen] = {}

    def start_daemon(self, name: str) -> str:
        """Start a daemon in the foreground with output appended to DIRECTORY/NAME.log."""
        with (self._directory / f"{name}.log").open("a") as log:
            command = self._command(name)
            self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return ""

    def _command(self, name: str) -> list[str]:
        """Return the command line of a daemon."""
        directory = self._directory
        if name == "munged":
            files = [f"--{part}={directory}/munge.{end}" for part, end in (("key-file", "key"), ("socket", "socket"))]
            files += [f"--{part}-file={directory}/munge.{part}" for part in ("pid", "seed", "log")]
            return ["munged", "--foreground", *files]
        if name == "mariadbd":  # only processes of the cluster can reach it
            files = [f"--datadir={directory}/database", f"--socket={directory}/sql"]
            memory = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--performance-schema=OFF"]
            access = ["--skip-grant-tables", "--bind-address=127.0.0.1", f"--user={owner()}"]
            return ["mariadbd", "--no-defaults", *files, *memory, *access]
        if name.startswith("slurmd-"):
            return ["slurmd", "-D", "-N", name.removeprefix("slurmd-")]
        return [name, "-D"]

    def stop_daemon(self, name: str, number: int = signal.SIGTERM) -> str:
        """Send a signal to a daemon, and wait until it has ended."""
        daemon = self._running.pop(name)
        daemon.send_signal(number)
        daemon.wait()
        return ""

    def fail_node(self, node: str) -> str:
        """Kill slurmd of a node, then its slurmstepd processes, then all processes of its jobs."""
        self.stop_daemon(f"slurmd-{node}", signal.SIGKILL)
        jobs = {pid for pid in processes() if f"SLURMD_NODENAME={node}" in environment_of(pid)}
        managers = {parent for pid in jobs if (parent := parent_of(pid)) not in jobs and parent > 1}
        for pid in [*managers, *jobs]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return ""

    def run(self, *command: str) -> str:
        """Run a command and return its output."""
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout

    def serve(self) -> None:
        """Answer requests in a thread."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._directory / "control"))
        listener.listen()
        threading.Thread(target=self._answer_all, args=[listener], daemon=True).start()

    def _answer_all(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw", encoding="utf-8") as stream:
                name, *arguments = json.loads(stream.read())
                stream.write(getattr(self, name)(*arguments))


def processes() -> list[int]:
    """Return the identifiers of all processes of the cluster."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def environment_of(pid: int) -> list[str]:
    """Return the environment with which a process was started; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """Return the identifier of the parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def owner() -> str:
    """Return the name of the user that runs the cluster."""
    return Path("/proc/self").owner()


def configure(directory: Path, *, accounting: bool, over_memory_kill: bool, cpus: int | None, nodes: int) -> None:
    """Write the configuration of the daemons."""
    directory.chmod(0o711)  # munged requires that all users can reach its socket
    for name in ("state", *(f"spool-{node}" for node in NODES[:nodes])):
        (directory / name).mkdir()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10 // nodes
    values = {"directory": directory, "address": ADDRESS, "user": owner()}
    values |= {"cpus": cpus or os.cpu_count(), "memory_mb": memory_mb, "nodes": nodes}
    values |= {"first": FIRST_PORT, "last": FIRST_PORT + nodes - 1}
    accounted = WITH_ACCOUNTING if accounting else WITHOUT_ACCOUNTING
    parts = (CONFIGURATION, accounted, LIMITED_MEMORY if over_memory_kill else ANY_MEMORY)
    (directory / "slurm.conf").write_text("".join(parts).format(**values))
    (directory / "cgroup.conf").write_text("CgroupAutomount=no\n")
    database = directory / "slurmdbd.conf"
    database.touch(mode=0o600)  # slurmdbd refuses to read it if others can
    database.write_text(DATABASE.format(**values))
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


def until(phrase: str, *command: str, number: int = 1) -> None:
    """Repeat a query until its output contains ``phrase`` at least ``number`` times. Exits on timeout."""
    end = time.monotonic() + START_S
    while (answer := subprocess.run(command, capture_output=True, text=True, check=False)).stdout.count(
        phrase
    ) < number:
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace") for path in Path("/etc/slurm").glob("*.log"))
            sys.exit(f"no cluster within {START_S} s: {' '.join(command)}: {answer.stdout}{answer.stderr}{logs}")
        time.sleep(0.1)


def start_database(daemons: Daemons, directory: Path) -> None:
    """Start MariaDB and slurmdbd, and register the cluster with an account of the user."""
    words = ["--no-defaults", f"--datadir={directory}/database", "--skip-test-db", f"--user={owner()}"]
    words.append("--auth-root-authentication-method=normal")
    subprocess.run(["mariadb-install-db", *words], check=True, stdout=subprocess.DEVNULL)
    daemons.start_daemon("mariadbd")
    until("1", "mariadb", "--no-defaults", f"--socket={directory}/sql", "-Ne", "select 1")
    daemons.start_daemon("slurmdbd")
    until("Cluster", "sacctmgr", "show", "cluster")
    for words in (("cluster", "one"), ("account", "traffic"), ("user", owner(), "account=traffic")):
        subprocess.run(["sacctmgr", "--immediate", "add", *words], check=True, stdout=subprocess.DEVNULL)
    default = ["user", owner(), "set", "defaultaccount=traffic"]  # root already has a different account
    subprocess.run(["sacctmgr", "--immediate", "modify", *default], check=True, stdout=subprocess.DEVNULL)


def main(directory: Path, command: list[str]) -> int:
    """Run as process 1 of the namespaces."""
    os.environ["PATH"] = search_path()
    socket.sethostname("localhost")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm's resolver flags (AI_ADDRCONFIG) require an address of the machine other than loopback.
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    options = json.loads((directory / "options.json").read_text())
    configure(directory, **options)
    subprocess.run(["mount", "--bind", str(directory), "/etc/slurm"], check=True)
    daemons = Daemons(directory)
    daemons.start_daemon("munged")
    until("Success", "sh", "-c", f"munge -n -S {directory}/munge.socket | unmunge -S {directory}/munge.socket")
    if options["accounting"]:
        start_database(daemons, directory)
    for name in ("slurmctld", *(f"slurmd-{node}" for node in NODES[: options["nodes"]])):
        daemons.start_daemon(name)
    until("idle", "sinfo", "--noheader", "--Node", "--partition=all", "--format=%N %T", number=options["nodes"])
    daemons.serve()
    threading.Thread(target=end_with_test, daemon=True).start()
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


def end_with_test() -> None:
    """End process 1, and thereby the cluster, when the test that started it has ended."""
    while os.read(sys.stdin.fileno(), 1):  # unlike sys.stdin, needs no lock when process 1 ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
