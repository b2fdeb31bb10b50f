"""Report which programs and kernel features are available on this machine, and what missing ones would enable.

    acapella doctor
    acapella doctor --json > machine.json

If possible, features are tested by using them, not inferred from versions or lists of modules. Features of tc are
tested on dummy or veth interfaces in a separate network namespace, which is removed when the process ends. The exit
code is always 0, because a missing program or feature is not an error.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from acapella_core import names

TIMEOUT_S = 20
SIGNALS_ABI = 6  # first ABI of Landlock that restricts signals
GIB = 1024**3
CONFIG = Path("config/config.yaml")
RDMA_DEVICES = Path("/sys/class/infiniband")
ADMIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")  # directories of tcpdump and tc, which are not on the PATH of users


JSON_KEYS = {"available": "there", "state": "seen"}  # --json keeps the keys of version 0.1


@dataclass(frozen=True)
class Finding:
    """A program or feature: whether it is available, its version or state, its use, and how to install it."""

    group: str
    piece: str
    available: bool
    state: str
    enables: str
    install: str | None


@dataclass(frozen=True)
class Program:
    """A program, the arguments that print its version, its use, its Debian package, and alternative names."""

    group: str
    name: str
    version_arguments: tuple[str, ...]
    enables: str
    package: str
    alternatives: tuple[str, ...] = ()


PROGRAMS = (
    Program("dissection", "tshark", ("--version",), "engines hybrid and tshark, acapella verify", "tshark"),
    Program("capture", "tcpdump", ("--version",), "captures", "tcpdump"),
    Program("capture", "acapella-dpdk-capture", ("--version",), "captures with DPDK", "libdpdk-dev"),
    Program("capture", "acapella-dpdk-generate", ("--version",), "traffic from models", "libdpdk-dev"),
    Program("capture", "acapella-monitor", ("--version",), "counts of generated traffic", "libdpdk-dev"),
    Program("capture", "acapella-dpdk-replay", ("--version",), "replays with DPDK", "libdpdk-dev"),
    Program("P4", "acapella-p4-run", ("--version",), "P4 programs over captures", "libdpdk-dev"),
    Program("testbed local", "ip", ("-Version",), "namespaces, bridges and mirrors", "iproute2"),
    Program("testbed local", "ethtool", ("--version",), "frames as a wire would carry them (offloads off)", "ethtool"),
    Program("testbed local", "iperf3", ("--version",), "TCP and UDP streams", "iperf3"),
    Program("testbed local", "tcpreplay", ("--version",), "trials: one capture replayed (local.replay)", "tcpreplay"),
    Program("testbed local", "curl", ("--version",), "HTTP and HTTPS clients", "curl"),
    Program("testbed local", "nginx", ("-v",), "HTTP and HTTPS server", "nginx-light"),
    Program("testbed local", "openssl", ("version",), "the HTTPS server's certificate", "openssl"),
    Program("testbed local", "dnsmasq", ("--version",), "DNS server", "dnsmasq-base"),
    Program("testbed local", "dig", ("-v",), "DNS client", "bind9-dnsutils"),
    Program("testbed local", "ping", ("-V",), "ICMP", "iputils-ping"),
    Program("testbed local", "sshd", ("-V",), "SSH traffic", "openssh-server"),
    Program("testbed local", "ovs-vsctl", ("--version",), "Open vSwitch: tags and labels", "openvswitch-switch"),
    Program("testbed local", "snmpset", ("-V",), "switch counters by SNMP, as on FABRIC (also needs snmpd)", "snmp"),
    Program("testbed local", "prometheus", ("--version",), "switch counters by SNMP", "prometheus"),
    Program(
        "testbed local",
        "prometheus-snmp-exporter",
        ("--version",),
        "switch counters by SNMP",
        "prometheus-snmp-exporter",
    ),
    Program("P4", "p4c", ("--version",), "compile P4 programs", "none in Debian 12", ("p4c-dpdk", "p4test")),
    Program("flow reports", "softflowd", ("-h",), "acapella p4 compare", "softflowd"),
    Program("flow reports", "nfpcapd", ("-V",), "acapella p4 compare", "nfdump"),
    Program("flow reports", "zeek", ("--version",), "acapella p4 compare", "none in Debian 12"),
    Program("storage", "rsync", ("--version",), "captures on a share that are fetched (fs:PATH)", "rsync"),
    Program("clusters", "sbatch", ("--version",), "submitting jobs to a cluster", "slurm-client"),
    Program("storage study", "bpftrace", ("--version",), "latency of writes (snakemake storage)", "bpftrace"),
    Program("report", "chromium", ("--version",), "the tests that open the report in a browser", "chromium"),
    Program("development", "clang++-14", ("--version",), "make fuzz", "clang-14"),
    Program("development", "clang-tidy-14", ("--version",), "make lint", "clang-tidy-14"),
    Program("development", "slurmd", ("-V",), "the test of profiles/slurm, with its own Slurm", "slurmd"),
    Program("development", "fio", ("--version",), "make bench: the disk's own speed", "fio"),
    Program("development", "shellcheck", ("--version",), "make lint", "shellcheck"),
)

# Libraries that the native core is built with if it finds them: feature, use, Debian package.
CORE_FEATURES = (
    ("gzip", "captures compressed with gzip", "zlib1g-dev"),
    ("zstd", "captures compressed with zstd", "libzstd-dev"),
    ("lz4", "captures compressed with lz4", "liblz4-dev"),
    ("aes", "acapella anonymize, acapella release", "libssl-dev"),
)

# Tests on interface d0 with m0 as mirror destination: feature, commands, use.
HTB = "tc qdisc add dev d0 root handle 1: htb default 1"
TC_FEATURES = (
    ("tc htb", (HTB,), "mirrors of what a port sends"),
    ("tc ingress", ("tc qdisc add dev d0 handle ffff: ingress",), "mirrors of what a port receives"),
    ("tc clsact", ("tc qdisc add dev d0 clsact",), "not used: mirrors use ingress and htb"),
    (
        "tc u32 + mirred",
        (
            "tc qdisc add dev d0 handle ffff: ingress",
            "tc filter add dev d0 parent ffff: u32 match u32 0 0 action mirred egress mirror dev m0",
        ),
        "port mirrors of testbed local",
    ),
    (
        "tc matchall",
        (
            "tc qdisc add dev d0 handle ffff: ingress",
            "tc filter add dev d0 parent ffff: matchall action mirred egress mirror dev m0",
        ),
        "not used: mirrors use u32",
    ),
    ("tc tbf", ("tc qdisc add dev d0 root tbf rate 100mbit burst 32kb limit 64kb",), "a mirror port with a line rate"),
    ("tc netem", ("tc qdisc add dev d0 root netem delay 1ms",), "transfers with delay (without it: acapella-link)"),
)
KERNEL_LINKS = (
    ("veth", "ip link add v0 type veth peer name v1", "links of testbed local"),
    ("bridge", "ip link add b0 type bridge", "switches of testbed local"),
    ("vlan", "ip link add link d0 name d0.7 type vlan id 7", "traffic on path vlan of testbed local"),
    ("vxlan", "ip link add x0 type vxlan id 7 dstport 4789 dev d0", "traffic on path vxlan of testbed local"),
)


def register_parser(subparsers: argparse._SubParsersAction) -> argparse.ArgumentParser:
    """Add `doctor` to the command line."""
    parser = subparsers.add_parser("doctor", help="report what this machine can do", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the findings as text or JSON."""
    findings = examine()
    if args.json:
        documents = [{JSON_KEYS.get(key, key): value for key, value in asdict(finding).items()} for finding in findings]
        json.dump(documents, sys.stdout, indent=2)
        print()
        return
    print("\n".join(as_text(findings)))


def examine() -> list[Finding]:
    """Return all findings, ordered by group."""
    programs = [program(entry) for entry in PROGRAMS]
    findings = [
        *machine(),
        *digest_cache(),
        *core_features(),
        *programs,
        rdma(),
        cluster(),
        *privileges(),
        *confinement(),
        *kernel_findings(),
        *python_packages(),
    ]
    groups = list(dict.fromkeys(finding.group for finding in findings))
    return sorted(findings, key=lambda finding: groups.index(finding.group))


def as_text(findings: list[Finding]) -> Iterator[str]:
    """Yield the report as lines of text: each program and feature, then the uses of the missing ones."""
    group, width = "", max((len(finding.piece) for finding in findings), default=0)
    for finding in findings:
        if finding.group != group:
            group = finding.group
            yield f"{group}"
        mark = "yes" if finding.available else "NO "
        yield f"  {mark}  {finding.piece:<{width}}  {finding.state}".rstrip()
    missing = [finding for finding in findings if not finding.available]
    if missing:
        yield ""
        yield "use of the missing programs and features"
    for finding in missing:
        hint = f"  [{finding.install}]" if finding.install else ""
        yield f"  {finding.piece:<{width}}  {finding.enables}{hint}"


def machine() -> list[Finding]:
    """Return findings about the system, and about cores, memory and disk space, which limit parallel jobs."""
    cores = len(os.sched_getaffinity(0))
    memory = memory_bytes()
    disk = shutil.disk_usage(".").free
    return [
        Finding("machine", "cores", True, str(cores), "samples digested in parallel", None),
        Finding("machine", "memory", True, f"{memory / GIB:.1f} GiB available", "jobs in parallel", None),
        Finding("machine", "disk", True, f"{disk / GIB:.1f} GiB free here", "captures and acaps", None),
        Finding("machine", "system", True, f"{os.uname().sysname} {os.uname().release}", "namespaces, mirrors", None),
    ]


def digest_cache() -> list[Finding]:
    """Return the finding about the cache of digests, with its size; empty if there is no cache."""
    directory = cache_in_config() or os.environ.get("ACAPELLA_CACHE")
    if not directory:
        return []
    from acapella.digest import cache  # noqa: PLC0415 - only if there is one

    digests = cache.digests(Path(directory))
    size = sum(digest.size_bytes for digest in digests) / GIB
    state = f"{names.pluralize(len(digests), 'digest')}, {size:.1f} GiB in {directory}"
    return [Finding("machine", "cache of digests", True, names.shown(state), "digests shared by campaigns", None)]


def cache_in_config() -> str | None:
    """Return the cache of digests that the config in the working directory sets; None if there is none."""
    with contextlib.suppress(ImportError):  # python_packages reports it
        import yaml  # noqa: PLC0415 - may be missing

        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            return os.path.expanduser(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["digest"]["cache"])  # noqa: PTH111
    return None


def memory_bytes() -> int:
    """Return the memory that is available to new programs without swapping, in bytes; 0 if it is unknown."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def program(entry: Program) -> Finding:
    """Return the finding about a program: whether `which` finds it, and the version that it prints."""
    path = None
    for name in (entry.name, *entry.alternatives):
        path = path or which(name)
    state = first_words(output_of([path, *entry.version_arguments])) if path else "not found"
    build = ", then make setup" if entry.name.startswith("acapella-") else ""
    install = None if path else f"{install_hint(entry.package)}{build}"
    return Finding(entry.group, entry.name, path is not None, state, entry.enables, install)


def core_features() -> list[Finding]:
    """Return findings about the libraries that the native core was built with."""
    try:
        from acapella_core import _native  # noqa: PLC0415 - python_packages reports that it is missing
    except ImportError:
        return []
    built = _native.features()
    return [
        Finding(
            "native core",
            name,
            built[name],
            "built in" if built[name] else "not built in",
            enables,
            None if built[name] else f"{install_hint(package)}, then make setup",
        )
        for name, enables, package in CORE_FEATURES
    ]


def cluster() -> Finding:
    """Return the finding about a Slurm cluster. It must respond, because Slurm's programs are useless without one."""
    output = output_of(["sinfo", "--noheader", "--format=%D nodes"])
    node_count = next((line for line in output.splitlines() if re.fullmatch(r"\d+ nodes", line)), None)
    fix = None if node_count else "the cluster's slurm.conf in /etc/slurm, or one of its login nodes"
    state = node_count or ("sinfo: not found" if not output.strip() else "sinfo finds no cluster")
    return Finding("clusters", "Slurm controller", bool(node_count), state[:70], "snakemake --profile slurm", fix)


def rdma(devices: Path = RDMA_DEVICES) -> Finding:
    """Return the finding about RDMA devices that the kernel lists, with the state of their ports."""
    names = sorted(path.name for path in devices.iterdir()) if devices.is_dir() else []
    states = [f"{path.parts[-4]} {path.read_text().strip()}" for path in sorted(devices.glob("*/ports/*/state"))]
    enables = "acapella p4 collect --rdma-device (without: pcap, AF_PACKET)"
    state = ", ".join(states or names)[:70] or "none"
    return Finding("flow reports", "RDMA device", bool(names), state, enables, None if names else "an RDMA-capable NIC")


def which(name: str) -> str | None:
    """Return the path of a program on the PATH, in ADMIN, or in the virtual environment; None if there is none."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join((*ADMIN, str(Path(sys.executable).parent))))


def install_hint(package: str) -> str:
    """Return the command that installs a package, or the text about a missing package."""
    return package if package.startswith("none") else f"apt-get install {package}"


def output_of(command: list[str]) -> str:
    """Return the standard output and standard error of a command; empty if it does not start or times out."""
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{process.stdout}\n{process.stderr}"


def first_words(text: str) -> str:
    """Return the first line with a version number, or else the first line, truncated to 70 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.search(" (error|fatal): ", line)]
    versions = [line for line in lines if re.search(r"\d\.\d", line)]
    return (versions or lines or ["version not printed"])[0][:70]


def privileges() -> list[Finding]:
    """Return findings about root and user namespaces; testbed local requires one of them."""
    root = os.geteuid() == 0
    network = isolated(["true"]) is None
    fix = "as root: sysctl kernel.unprivileged_userns_clone=1 (Debian), or run as root"
    return [
        Finding(
            "privileges",
            "root",
            root,
            f"user id {os.geteuid()}",
            "installing packages; testbed local without user namespaces",
            None,
        ),
        Finding(
            "privileges",
            "user namespaces",
            network,
            "unshare -rn works" if network else "unshare -rn is refused",
            "testbed local without root",
            fix,
        ),
    ]


def probe_confinement() -> tuple[bool, str, str]:
    """Return whether a confined program has a system call filter, and texts about its user and its process limit."""
    from acapella.common.confined import PROCESSES, TASKS, status_of_test_program  # noqa: PLC0415 - needs the native core

    try:
        status = status_of_test_program()
    except OSError as error:
        return False, f"no confined program starts: {error}", ""
    uid = int(status["Uid"].split()[0])
    user = f"current user, {uid}" if uid == os.geteuid() else "a separate user"
    limited = status[PROCESSES] == str(TASKS)
    processes = f"at most {TASKS}" if limited else "not limited: no separate user namespace"
    seccomp = status.get("Seccomp") == "2"
    if not seccomp:
        processes += "; a process that calls setsid continues after the program ends"
    return seccomp, user + (": cannot switch to another user" if uid == os.geteuid() else ""), processes


def confinement() -> list[Finding]:
    """Return findings about the confinement of tshark and `acapella digest`, which read untrusted input."""
    try:
        from acapella_core import _native  # noqa: PLC0415 - python_packages reports that it is missing
    except ImportError:
        return []
    support = _native.confinement_support()
    abi = support["landlock_abi"]
    seccomp, user, processes = probe_confinement()
    signals = "tshark: only to itself; commands: to their own programs" if seccomp else "to all processes of the user"
    if seccomp and abi < SIGNALS_ABI:
        signals = "tshark: only to itself; commands that start programs: to all processes of the user"
    pieces = (
        ("Landlock", abi > 0, f"active, ABI {abi}" if abi else "not in this kernel", "tshark and digest: few files"),
        ("seccomp", seccomp, "active" if seccomp else "not in this kernel", "tshark and digest: no network"),
        ("signals", seccomp and abi >= SIGNALS_ABI, signals, "none to other processes (Landlock ABI 6, Linux 6.12)"),
        ("user of tshark", True, user, "few files"),
        ("processes of tshark", processes.startswith("at most"), processes, "no fork bombs"),
    )
    fix = "a kernel with Landlock, seccomp, and user namespaces (Linux 5.13 or later, lsm=landlock,...)"
    return [
        Finding("confinement", piece, available, state, enables, None if available else fix)
        for piece, available, state, enables in pieces
    ]


def isolated(command: list[str]) -> str | None:
    """Run a command in new user and network namespaces. Return None if it succeeds, otherwise an error message."""
    try:
        process = subprocess.run(
            ["unshare", "-rn", *command],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            errors="replace",
            env={**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), *ADMIN])},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if process.returncode == 0:
        return None
    output = [line for line in process.stderr.splitlines() if line.strip()]
    return output[0] if output else f"exit code {process.returncode}"


def kernel_findings() -> list[Finding]:
    """Test every traffic control and link feature of the kernel in new namespaces; return the findings."""
    prepare = ("ip link add d0 type dummy", "ip link add m0 type dummy", "ip link set d0 up", "ip link set m0 up")
    veths = ("ip link add d0 type veth peer name d1", "ip link add m0 type veth peer name m1", "ip link set d0 up")
    start = prepare if isolated(script(prepare)) is None else veths  # the module dummy may be missing
    candidates = [(piece, commands, enables) for piece, commands, enables in TC_FEATURES]
    candidates += [(f"link {piece}", (command,), enables) for piece, command, enables in KERNEL_LINKS]
    return [feature(piece, (*start, *commands), enables) for piece, commands, enables in candidates]


def script(commands: tuple[str, ...]) -> list[str]:
    """Return a command that runs all commands and stops at the first one that fails."""
    return ["sh", "-ec", "\n".join(commands)]


def feature(piece: str, commands: tuple[str, ...], enables: str) -> Finding:
    """Test a feature and return the finding, which contains the error message if the test fails."""
    output = isolated(script(commands))
    state = "tried, works" if output is None else output[:70]
    return Finding(
        "kernel (tried)", piece, output is None, state, enables, None if output is None else "another kernel"
    )


def python_packages() -> list[Finding]:
    """Return findings about Python packages that may be missing."""
    from importlib.util import find_spec  # noqa: PLC0415

    checks: tuple[tuple[str, str, str, Callable[[str], object]], ...] = (
        ("fablib", "fabrictestbed_extensions", "testbed fabric", find_spec),
        ("native core", "acapella_core._native", "acapella digest", find_spec),
    )
    hints = {"fablib": "make setup-fabric", "native core": "make setup"}
    return [
        Finding("Python", piece, True, "installed", enables, None)
        if find(module)
        else Finding("Python", piece, False, "not installed", enables, hints[piece])
        for piece, module, enables, find in checks
    ]
