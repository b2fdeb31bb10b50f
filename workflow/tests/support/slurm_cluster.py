"""A Slurm cluster of one node for one command, in namespaces of its own: slurm_cluster.py FOLDER COMMAND...

Started by `command_on_cluster`: as process 1 of new PID, network, mount and host name namespaces it puts FOLDER in the
place of /etc/slurm, starts munged, slurmctld and slurmd, runs COMMAND once the node is idle, and ends with its status.
With process 1 the kernel ends every process of the cluster; its ports are on a loopback that nobody else has.
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
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
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
    """PATH and the folders of the system's programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])


def unshare() -> list[str]:
    """The command that opens the namespaces."""
    return ["unshare", *(USER if os.geteuid() else ()), *NAMESPACES]


def command_on_cluster(folder: Path, command: list[str]) -> list[str]:
    """The command line that runs ``command`` on a cluster whose files are in ``folder`` (a short path: a socket)."""
    return [*unshare(), sys.executable, __file__, str(folder), *command]


def configure(folder: Path) -> None:
    """Write what the daemons read."""
    folder.chmod(0o711)  # munged insists that everybody could reach its socket
    for name in ("state", "spool"):
        (folder / name).mkdir()
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10
    told = {"folder": folder, "address": ADDRESS, "user": Path("/proc/self").owner()}
    told |= {"cpus": os.cpu_count(), "memory_mb": memory_mb}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**told))
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


def start(folder: Path, *command: str) -> None:
    """Start a daemon in the foreground, its words in FOLDER/NAME.log."""
    with (folder / f"{command[0]}.log").open("w") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def until(said: str, *command: str) -> None:
    """Ask until the answer holds the words. Ends the program where they do not come in time."""
    end = time.monotonic() + START_S
    while said not in (answer := subprocess.run(command, capture_output=True, text=True, check=False)).stdout:
        if time.monotonic() > end:
            logs = "".join(path.read_text(errors="replace") for path in Path("/etc/slurm").glob("*.log"))
            sys.exit(f"no cluster within {START_S} s: {' '.join(command)}: {answer.stdout}{answer.stderr}{logs}")
        time.sleep(0.1)


def main(folder: Path, command: list[str]) -> int:
    """Process 1 of the namespaces."""
    os.environ["PATH"] = search_path()
    socket.sethostname("localhost")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Slurm asks the resolver for addresses that the machine can reach (AI_ADDRCONFIG), and loopback's own do not count.
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    configure(folder)
    subprocess.run(["mount", "--bind", str(folder), "/etc/slurm"], check=True)
    files = [f"--{name}={folder}/munge.{ending}" for name, ending in (("key-file", "key"), ("socket", "socket"))]
    files += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "seed", "log")]
    start(folder, "munged", "--foreground", *files)
    until("Success", "sh", "-c", f"munge -n -S {folder}/munge.socket | unmunge -S {folder}/munge.socket")
    start(folder, "slurmctld", "-D")
    start(folder, "slurmd", "-D", "-N", "localhost")
    until("idle", "sinfo", "--noheader", "--format=%T")
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
