"""Servers for the local testbed's traffic: iperf3, nginx (or Python's web server), dnsmasq, sshd."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from .network import Host
from .processes import LocalJob, environment, run_checked, start, terminate, wait_until
from .sandbox import SCRATCH, mount, python_argv

LISTEN_S = 15  # timeout for all iperf3 servers together
NGINX = """\
daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr;
events {{ worker_connections 128; }}
http {{
  access_log off; default_type application/octet-stream;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{ listen 80; listen [::]:80; {tls} root {www}; }}
}}
"""
NGINX_TLS = "listen 443 ssl; listen [::]:443 ssl; ssl_certificate {pem}; ssl_certificate_key {pem};"


class Services:
    """Servers, started when first needed. iperf3 servers end with their client, all others with the sandbox."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], LocalJob] = {}
        self._iperf3: dict[int, LocalJob] = {}

    def ensure_running(self, service: str, host: Host, size_kib: int) -> bool:
        """Start a service on a host unless it is running; for the web service, create a file of the given size.

        Returns True if it was started now. Raises UserError if a file that it needs cannot be created.
        """
        if service == "web":
            make_document(size_kib)
        if self.runs(service, host):
            return False
        argv = {"web": web_argv, "dns": dns_argv, "ssh": ssh_argv}[service](host)
        self._running[service, host.name] = start(host.name, argv)
        return True

    def runs(self, service: str, host: Host) -> bool:
        """Return whether the service was started on the host and has not ended."""
        job = self._running.get((service, host.name))
        return job is not None and job.poll() is None

    def log(self, service: str, host: Host) -> str:
        """Return the output of the service."""
        return self._running[service, host.name].log()

    def iperf3(self, servers: dict[int, tuple[Host, int]]) -> dict[int, str]:
        """Start a server per client number and wait until they listen; return the reason for each that does not.

        A server that does not listen is restarted once.
        """
        failed = self._listen(servers)
        failed = self._listen({number: servers[number] for number in failed})
        return {
            number: f"iperf3 does not listen on {servers[number][0].name}: {job.last_line()}"
            for number, job in failed.items()
        }

    def _listen(self, servers: dict[int, tuple[Host, int]]) -> dict[int, LocalJob]:
        """Start these servers; return those that ended, or did not listen in time and were terminated."""
        jobs = {
            number: start(host.name, ["iperf3", "-s", "-1", "-p", str(port), "--forceflush"])
            for number, (host, port) in servers.items()
        }
        self._iperf3 |= jobs

        def waiting() -> dict[int, LocalJob]:
            return {number: job for number, job in jobs.items() if "Server listening" not in job.log()}

        wait_until(lambda: all(job.poll() is not None for job in waiting().values()), timeout_s=LISTEN_S)
        failed = waiting()
        terminate(failed.values())
        return failed

    def end_iperf3(self, numbers: Iterable[int]) -> None:
        """Stop the servers of these clients."""
        terminate([self._iperf3.pop(number) for number in numbers if number in self._iperf3])


def directory_of(service: str, host: Host | None = None) -> Path:
    """Return a directory in the scratch file system, which is removed with the sandbox."""
    directory = SCRATCH / service / host.name if host else SCRATCH / service
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def make_document(size_kib: int) -> None:
    """Create a file of a given size for the web servers, named after the size."""
    (directory_of("www") / str(size_kib)).write_bytes(bytes(range(256)) * (4 * size_kib))


def certificate() -> Path | None:
    """Return a file with a self-signed certificate and its key, created on first use; None without openssl."""
    pem = directory_of("tls") / "server.pem"
    if not pem.exists() and shutil.which("openssl", path=environment()["PATH"]):
        key = directory_of("tls") / "key.pem"
        options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        subject = ["-subj", "/CN=server.acapella.test", "-keyout", str(key), "-out", str(pem)]
        run_checked("site1", ["openssl", "req", *options, *subject])
        pem.write_text(pem.read_text() + key.read_text())
    return pem if pem.exists() else None


def web_argv(host: Host) -> list[str]:
    """Return the command of nginx, or of web_server.py if nginx is missing."""
    pem = certificate()
    if not shutil.which("nginx", path=environment()["PATH"]):
        return python_argv(f"{__package__}.web_server", str(directory_of("www")), str(pem or ""))
    directory = directory_of("nginx", host)
    tls = NGINX_TLS.format(pem=pem) if pem else ""
    (directory / "nginx.conf").write_text(NGINX.format(directory=directory, www=directory_of("www"), tls=tls))
    return ["nginx", "-e", "stderr", "-c", str(directory / "nginx.conf")]


def dns_argv(host: Host) -> list[str]:
    """Return the command of dnsmasq, authoritative for one name, without upstream servers."""
    record = f"server.acapella.test,{host.address(4)},{host.address(6)}"
    return ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=",
            "--user=root", "--group=root", f"--host-record={record}", "--log-facility=-"]  # fmt: skip


def ssh_argv(host: Host) -> list[str]:
    """Return the command of sshd with new keys, for an account that only exists in the sandbox.

    As user 0, sshd would need a separate account for privilege separation, a directory in /run and setgroups(2).
    Therefore, it runs as the account that logs in, in a separate user namespace.
    """
    directory = directory_of("ssh")
    if not (directory / "client").exists():
        for key in ("client", "server"):
            run_checked("site1", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(directory / key)])
        accounts = directory / "passwd"
        accounts.write_text(f"acapella:x:1000:1000::{SCRATCH}:/bin/sh\n" + Path("/etc/passwd").read_text())
        mount(str(accounts), "/etc/passwd", bind=True)
    sshd = shutil.which("sshd", path=environment()["PATH"])
    options = ["Port=22", f"AuthorizedKeysFile={directory / 'client.pub'}", "PidFile=none", "StrictModes=no",
               "UsePAM=no", "UseDNS=no", "PrintMotd=no"]  # fmt: skip
    settings = [argument for option in options for argument in ("-o", option)]
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000",
            sshd, "-D", "-e", "-f", "/dev/null", "-h", str(directory / "server"), *settings]  # fmt: skip
