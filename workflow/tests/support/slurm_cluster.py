"""Run a command on a Slurm cluster of one node in separate namespaces: slurm_cluster.py DIRECTORY COMMAND...

`command_on_cluster` returns the command line that starts this as process 1 of new PID, network, mount and host name
namespaces. It mounts DIRECTORY over /etc/slurm, starts munged, slurmctld and slurmd, runs COMMAND when the node is
idle, and exits with its status. When process 1 ends, the kernel ends every process of the cluster. Its ports are on a
private loopback interface.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
NAMESPACES = ("--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net", "--uts")
USER = ("--user", "--map-current-user", "--keep-caps")  # if we are not root; munged and slurmd do not need root either
START_S = 120  # only reached if a daemon hangs
ADDRESS = "192.0.2.1"  # not the address of any machine, RFC 5737
# Without accounting, as profiles/slurm expects; without cgroups, which a container may not have.
CONFIGURATION = """
ClusterName=one
SlurmctldHost=localhost({address})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
NodeName=localhost NodeAddr={address} CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Return why the cluster cannot run on this machine; None if it can."""
    for program, package in PROGRAMS.items():
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


def command_on_cluster(directory: Path, command: list[str]) -> list[str]:
    """Return the command line that runs ``command`` on a cluster with files in ``directory``.

    The path must be short, because it contains a socket.
    """
    return [*unshare(), sys.executable, __file__, str(directory), *command]


def configure(directory: Path) -> None:
    """Write the configuration of the daemons."""
    directory.chmod(0o711)  # munged requires that all users can reach its socket
    for name in ("state", "spool"):
        (directory / name).mkdir()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10
    values = {"directory": directory, "address": ADDRESS, "user": Path("/proc/self").owner()}
    values |= {"cpus": os.cpu_count(), "memory_mb": memory_mb}
    (directory / "slurm.conf").write_text(CONFIGURATION.format(**values))
    (directory / "cgroup.conf").write_text("CgroupAutomount=no\n")
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


def start(directory: Path, *command: str) -> None:
    """Start a daemon in the foreground with output to DIRECTORY/NAME.log."""
    with (directory / f"{command[0]}.log").open("w") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def until(phrase: str, *command: str) -> None:
    """Repeat a query until the answer contains a text. Exits on timeout."""
    end = time.monotonic() + START_S
    while phrase not in (answer := subprocess.run(command, capture_output=True, text=True, check=False)).stdout:
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace") for path in Path("/etc/slurm").glob("*.log"))
            sys.exit(f"no cluster within {START_S} s: {' '.join(command)}: {answer.stdout}{answer.stderr}{logs}")
        time.sleep(0.1)


def main(directory: Path, command: list[str]) -> int:
    """Run as process 1 of the namespaces."""
    os.environ["PATH"] = search_path()
    socket.sethostname("localhost")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm's resolver flags (AI_ADDRCONFIG) require an address of the machine other than loopback.
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    configure(directory)
    subprocess.run(["mount", "--bind", str(directory), "/etc/slurm"], check=True)
    files = [f"--{name}={directory}/munge.{ending}" for name, ending in (("key-file", "key"), ("socket", "socket"))]
    files += [f"--{name}-file={directory}/munge.{name}" for name in ("pid", "seed", "log")]
    start(directory, "munged", "--foreground", *files)
    until("Success", "sh", "-c", f"munge -n -S {directory}/munge.socket | unmunge -S {directory}/munge.socket")
    start(directory, "slurmctld", "-D")
    start(directory, "slurmd", "-D", "-N", "localhost")
    until("idle", "sinfo", "--noheader", "--format=%T")
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
