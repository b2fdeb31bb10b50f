"""A Slurm cluster of one node for one command, in namespaces of its own: slurm_cluster.py DIRECTORY COMMAND...

Started by `command_on_cluster`: as process 1 of new PID, network, mount and host name namespaces it puts DIRECTORY in
the place of /etc/slurm, starts munged, slurmctld and slurmd, runs COMMAND once the node is idle, and ends with its
status. With process 1 the kernel ends every process of the cluster; its ports are on a loopback that nobody else has.
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
USER = ("--user", "--map-current-user", "--keep-caps")  # where we are not root; munged and slurmd need no root either
START_S = 120  # never reached but where a daemon hangs
ADDRESS = "192.0.2.1"  # of no machine, RFC 5737
# No accounting, as profiles/slurm is written for; no cgroups, which a container may not have.
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
    """Why there can be no cluster here, None where there can."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=search_path()) is None:
            return f"no Slurm: {program} is missing (Debian package {package})"
    tried = subprocess.run([*unshare(), "true"], capture_output=True, text=True, check=False)
    return f"no namespaces on this machine: {tried.stderr.strip()}" if tried.returncode else None


def search_path() -> str:
    """PATH and the directories of the system's programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def unshare() -> list[str]:
    """The command that opens the namespaces."""
    return ["unshare", *(USER if os.geteuid() else ()), *NAMESPACES]


def command_on_cluster(directory: Path, command: list[str]) -> list[str]:
    """The command line that runs ``command`` on a cluster whose files are in ``directory`` (a short path: a socket)."""
    return [*unshare(), sys.executable, __file__, str(directory), *command]


def configure(directory: Path) -> None:
    """Write what the daemons read."""
    directory.chmod(0o711)  # munged insists that everybody could reach its socket
    for name in ("state", "spool"):
        (directory / name).mkdir()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10
    told = {"directory": directory, "address": ADDRESS, "user": Path("/proc/self").owner()}
    told |= {"cpus": os.cpu_count(), "memory_mb": memory_mb}
    (directory / "slurm.conf").write_text(CONFIGURATION.format(**told))
    (directory / "cgroup.conf").write_text("CgroupAutomount=no\n")
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


def start(directory: Path, *command: str) -> None:
    """Start a daemon in the foreground, its words in DIRECTORY/NAME.log."""
    with (directory / f"{command[0]}.log").open("w") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def until(said: str, *command: str) -> None:
    """Ask until the answer holds the words. Ends the program where they do not come in time."""
    end = time.monotonic() + START_S
    while said not in (answer := subprocess.run(command, capture_output=True, text=True, check=False)).stdout:
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace") for path in Path("/etc/slurm").glob("*.log"))
            sys.exit(f"no cluster within {START_S} s: {' '.join(command)}: {answer.stdout}{answer.stderr}{logs}")
        time.sleep(0.1)


def main(directory: Path, command: list[str]) -> int:
    """Process 1 of the namespaces."""
    os.environ["PATH"] = search_path()
    socket.sethostname("localhost")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm asks the resolver for addresses that the machine can reach (AI_ADDRCONFIG), and loopback's own do not count.
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
