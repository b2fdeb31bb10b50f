"""Nodes of the FABRIC on loopback: an SSH server that runs commands in a private directory per user name.

FABRIC's client logs in with the node's name. Each node has its own home, and scripts instead of `ip`, `tcpdump` and
similar programs, so that no command affects this machine's network.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import paramiko
from acapella_testing.fabric.graphs import mac
from acapella_testing.processes import executable
from acapella_testing.runs.warm_python import WarmPython

IP = """#!/bin/sh
echo "ip $*" >> "$HOME/commands.log"
case "$*" in
    "-j link show") cat "$HOME/links.json" ;;
    "-o link show dev "*) echo "7: $5: <BROADCAST,UP> mtu 1500 qdisc noop" ;;
    *"mtu 9216"*) exit 2 ;;
esac
"""
CHRONYC = '#!/bin/sh\ncat "$HOME/chronyc.csv"\n'  # fails like chronyc without chronyd, unless a test writes its output
ETHTOOL = """#!/bin/sh
# Offloads are on until they are turned off. The NIC has no lro, and a receive ring of at most 2048 descriptors.
echo "ethtool $*" >> "$HOME/commands.log"
state() { [ -e "$HOME/$dev.$1" ] && echo off || echo on; }
dev=$2
case "$1 $3 $4" in
    "-K lro off") exit 1 ;;
    "-K "*" off") touch "$HOME/$dev.$3" ;;
    "-G rx "*) [ "$4" -le 2048 ] || exit 1; echo "$4" > "$HOME/$dev.ring" ;;
    "-k "*) echo "Features for $dev:"; echo "rx-checksumming: on"; echo "generic-receive-offload: $(state gro)"
        echo "rx-vlan-offload: $(state rxvlan)" ;;
    "-g "*) echo "Ring parameters for $dev:"; echo "Pre-set maximums:"; echo "RX:\t\t2048"; echo "TX:\t\t2048"
        echo "Current hardware settings:"; echo "RX:\t\t$(cat "$HOME/$dev.ring" || echo 512)"; echo "TX:\t\t512" ;;
esac
"""
BASTION = "@bastion"
ID = "#!/bin/sh\necho 1000\n"  # an ordinary user, as on FABRIC, even if root runs the tests
INSTALL = '#!/bin/sh\necho "install $*" >> "$HOME/commands.log"\n'  # prevents tests from installing packages
TIMEDATECTL = '#!/bin/sh\n[ -e "$HOME/unsynchronized" ] && echo no || echo yes\n'
LOGGED = '#!/bin/sh\necho "${0##*/} $*" >> "$HOME/commands.log"\n'  # for programs that would affect this machine
SUDO = '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n'
TCPDUMP = """#!{python} -IS
import os, signal, struct, sys, time
interface = sys.argv[sys.argv.index("-i") + 1]
captured = 0
wire_file = os.path.join(os.environ["HOME"], "wire_bytes")  # wire length of each frame, if a test sets it
def print_counts(*_):
    print(f"{{captured}} packets captured, {{captured}} packets received by filter, 0 packets dropped by kernel",
          file=sys.stderr, flush=True)
def end(*_):
    sys.stdout.buffer.flush()
    print_counts()
    os._exit(0)
signal.signal(signal.SIGUSR1, print_counts)
signal.signal(signal.SIGINT, end)
out = sys.stdout.buffer
out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 200, 1))
print(f"tcpdump: listening on {{interface}}", file=sys.stderr, flush=True)
while True:
    now = time.time_ns()
    head = "0800 45000032000100004011 0000 cb00714d c6336409 c3500009001e0000"  # 203.0.113.77, UDP
    frame = bytes(12) + bytes.fromhex(head) + b"s" * 22
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR1])
    wire = int(open(wire_file).read()) if os.path.exists(wire_file) else len(frame)
    out.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(frame), wire) + frame)
    out.flush()
    captured += 1
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGUSR1])
    time.sleep(0.01)
"""


def connect(port: int, node: str) -> paramiko.SSHClient:
    """Return a client that is logged in to a node of a server."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        client.connect("", username=node, password="x", sock=stream, allow_agent=False, look_for_keys=False)
    except BaseException:
        client.close()
        stream.close()
        raise
    return client


class Nodes:
    """The server, for nodes and for the login to the bastion host, whose user name is BASTION."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.refusing = False  # closes each new connection
        self.expired_key = False  # the bastion host rejects the user
        self.booting = 0  # number of the next logins to nodes that are refused
        # Every n-th command loses its connection after it was received. The first login to the bastion host, and every
        # n-th after it, loses its connection, too. 0: none.
        self.drop_every = 0
        self.prefixes: dict[str, tuple[str, ...]] = {}  # command prefixes by node, such as nsenter
        self.cut_downloads_after: int | None = None  # bytes after which all connections close
        self.downloaded = 0
        self.commands: list[str] = []
        self.key, self.bastion_key = self.new_key(), self.new_key()
        self.bastion_address = "192.0.2.1"
        self.logins: list[str] = []
        self._transports: list[paramiko.Transport] = []
        self._programs = directory / "bin"
        programs = dict.fromkeys(("apt-get", "dnf"), INSTALL) | dict.fromkeys(("cloud-init", "nmcli", "sysctl"), LOGGED)
        programs |= {"timedatectl": TIMEDATECTL, "ethtool": ETHTOOL, "ip": IP, "chronyc": CHRONYC, "id": ID}
        programs |= {"sudo": SUDO, "tcpdump": TCPDUMP.format(python=sys.executable)}
        for name, text in programs.items():
            executable(self._programs / name, text)
        self._python = WarmPython(self._programs)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @staticmethod
    def new_key() -> paramiko.PKey:
        """Return a host key."""
        return paramiko.ECDSAKey.generate()

    def home(self, node: str) -> Path:
        """Return a node's home, created on first use."""
        home = self.directory / node
        if not home.exists():
            home.mkdir()
            links = {"lo": "00:00:00:00:00:00", "enp3s0": "02:00:00:00:00:01"}
            links |= {f"enp{7 + n}s0": mac(node, f"{node}-nic-p{n}") for n in (1, 2)}
            entries = [{"ifname": name, "address": address} for name, address in links.items()]
            (home / "links.json").write_text(json.dumps(entries))
        return home

    def program(self, name: str) -> Path:
        """Return the path of a script that nodes run instead of a program of this machine."""
        return self._programs / name

    @contextlib.contextmanager
    def inside(self, prefix: tuple[str, ...], *nodes: str) -> Iterator[tuple[str, ...]]:
        """Run the commands of nodes with this prefix during the block; yield it."""
        self.prefixes |= dict.fromkeys(nodes, prefix)
        yield prefix
        self.prefixes.clear()

    def environment(self, node: str) -> dict[str, str]:
        path = f"{self._programs}:{os.environ['PATH']}"
        return {"HOME": str(self.home(node)), "PATH": path, "LC_ALL": "C", **self._python.environment}

    def lose_connections(self) -> None:
        """Close all connections, as if a bastion host restarted; programs on the nodes keep running."""
        for transport in self._transports:
            transport.close()
        self._transports.clear()

    def stop_answering(self) -> None:
        """Close all connections and refuse new ones, until a test sets `refusing` to False."""
        self.refusing = True
        self.lose_connections()

    def close(self) -> None:
        self.lose_connections()
        self._listening.close()
        for pid in self.running():  # programs left by a failed test
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid.read_text()), signal.SIGKILL)
        self._python.close()

    def started(self, node: str = "*") -> list[Path]:
        """Return the files with the process ids of the programs that were started on a node, by default on all."""
        return list(self.directory.glob(f"{node}/*/jobs/*/pid"))

    def running(self, node: str = "*") -> list[Path]:
        """Return those of `started` whose programs have not ended."""
        return [pid for pid in self.started(node) if not pid.with_name("status").exists()]

    def commands_of(self, node: str) -> list[str]:
        """Return the commands that the scripts of a node have logged."""
        return (self.home(node) / "commands.log").read_text().splitlines()

    def connect(self, node: str) -> paramiko.SSHClient:
        """Return a client that is logged in to a node."""
        return connect(self.port, node)

    def bastion(self) -> SimpleNamespace:
        """Return a stand-in for a client that is logged in to the bastion host, with the methods that are used."""
        return bastion(self.bastion_key, self.bastion_address)

    def bastion_key_file(self, directory: Path) -> Path:
        """Write the host key of the bastion host for other processes; return the file."""
        file = directory / "bastion_host_key"
        self.bastion_key.write_private_key_file(str(file))
        return file

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            if self.refusing:
                connection.close()
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.key)
            transport.set_subsystem_handler("sftp", Sftp, sftp_of(self))
            self._transports.append(transport)
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(server=SshServer(self))


def bastion(key: paramiko.PKey, address: str = "192.0.2.1") -> SimpleNamespace:
    """Return a stand-in for a client that is logged in to a bastion host with this key."""
    transport = SimpleNamespace(
        get_remote_server_key=lambda: key, is_active=lambda: True, getpeername=lambda: (address, 22)
    )
    return SimpleNamespace(get_transport=lambda: transport, close=lambda: None)


class SshServer(paramiko.ServerInterface):
    """Accepts logins, unless a fault refuses them, and runs the commands of clients."""

    def __init__(self, nodes: Nodes):
        self.nodes = nodes
        self.node = ""

    def check_auth_password(self, username, password):
        self.node = username
        every, earlier = self.nodes.drop_every, self.nodes.logins.count(BASTION)
        self.nodes.logins.append(username)
        if username == BASTION:
            if every and earlier % every == 0:
                raise EOFError  # closes the connection
            return paramiko.AUTH_FAILED if self.nodes.expired_key else paramiko.AUTH_SUCCESSFUL
        if self.nodes.booting > 0:
            self.nodes.booting -= 1
            return paramiko.AUTH_FAILED
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        self.nodes.commands.append(command.decode())
        every = self.nodes.drop_every
        if every and len(self.nodes.commands) % every == 0:
            threading.Thread(target=self.nodes.lose_connections, daemon=True).start()
        threading.Thread(target=self._run, args=(channel, command), daemon=True).start()
        return True

    def _run(self, channel, command: bytes) -> None:
        argv = [*self.nodes.prefixes.get(self.node, ()), "sh", "-c", command]
        done = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, check=False,
            env=self.nodes.environment(self.node), cwd=self.nodes.home(self.node),
        )  # fmt: skip
        with contextlib.suppress(OSError, EOFError):  # the connection is closed
            channel.sendall(done.stdout)
            channel.sendall_stderr(done.stderr)
            channel.send_exit_status(done.returncode)
        channel.close()


class Sftp(paramiko.SFTPServer):
    """An SFTP session that ends without an error when its connection is lost."""

    def start_subsystem(self, *arguments):
        with contextlib.suppress(OSError):
            super().start_subsystem(*arguments)


def sftp_of(nodes: Nodes) -> type[paramiko.SFTPServerInterface]:
    """Return the class that gives SFTP access to a node's home on this machine."""

    class Handle(paramiko.SFTPHandle):
        lost = False  # pending requests may still arrive and must not close the next connection
        reached = 0  # bytes requested twice count once, because a slow client reads ahead

        def read(self, offset, length):
            data = super().read(offset, length)
            reached = offset + len(data) if isinstance(data, bytes) else 0
            nodes.downloaded += max(0, reached - self.reached)
            self.reached = max(self.reached, reached)
            limit = nodes.cut_downloads_after
            if limit is not None and nodes.downloaded > limit and not self.lost:
                self.lost = True
                nodes.lose_connections()
            return data

    class Files(paramiko.SFTPServerInterface):
        def __init__(self, server: SshServer):
            self._home = nodes.home(server.node)

        def stat(self, path):
            try:
                return paramiko.SFTPAttributes.from_stat((self._home / path).stat())
            except OSError as error:
                return paramiko.SFTPServer.convert_errno(error.errno)

        def open(self, path, flags, attr):
            try:
                handle = Handle(flags)
                if flags & os.O_WRONLY:
                    handle.writefile = (self._home / path).open("wb")
                else:
                    handle.readfile = (self._home / path).open("rb")  # SFTPHandle closes it
                return handle
            except OSError as error:
                return paramiko.SFTPServer.convert_errno(error.errno)

    return Files
