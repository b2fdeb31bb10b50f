"""Reads switch counters as on FABRIC: with an SNMP agent at each switch, an exporter, and Prometheus, which polls them.

    site1: snmpd 169.254.1.2  --- manage1     the sandbox's own namespace:
    site2: snmpd 169.254.2.2  --- manage2     prometheus-snmp-exporter, prometheus on 127.0.0.1

Agents and exporter use a separate management network, so that none of their traffic crosses a switch or uses a port of
the machine.
"""

import json
import shutil
from pathlib import Path

from ..telemetry import IN, OUT, Prometheus
from . import sandbox
from .processes import NAMESPACES, run, run_checked, start
from .sandbox import SCRATCH

PROGRAMS = {
    "snmpd": "snmpd",
    "snmpset": "snmp",
    "prometheus": "prometheus",
    "prometheus-snmp-exporter": "prometheus-snmp-exporter",
}
SOURCE = "SNMP (ifXTable), by prometheus-snmp-exporter and Prometheus"
EVERY_S = 1
OPERATOR = "operator"  # the sandbox's own namespace, as a node
COMMUNITY = "acapella"
API = "http://127.0.0.1:9090/api/v1"
EXPORTER = "127.0.0.1:9116"
JOB = "data-sw"
NAME_OID = "1.3.6.1.2.1.31.1.1.1.1"
COUNTER_OIDS = {IN: "1.3.6.1.2.1.31.1.1.1.6", OUT: "1.3.6.1.2.1.31.1.1.1.10"}  # RFC 2863
CACHE_OID = "1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2"  # NET-SNMP-AGENT-MIB nsCacheTimeout of ifTable, s


def installed() -> bool:
    """Return whether all its programs are installed."""
    return all(shutil.which(program, path=sandbox.search_path()) for program in PROGRAMS)


def require() -> None:
    """Raise UserError naming the Debian package of the first missing program."""
    for program, package in PROGRAMS.items():
        sandbox.require(program, package)


def serve(sites: list[str]) -> dict[str, Prometheus]:
    """Start all programs; return the Prometheus query of each site. The first readings take a few seconds."""
    directory = SCRATCH / "snmp"
    shutil.rmtree(directory, ignore_errors=True)  # left by an earlier allocation
    directory.mkdir()
    (NAMESPACES / OPERATOR).touch()
    sandbox.mount("/proc/self/ns/net", NAMESPACES / OPERATOR, bind=True)
    run_checked(OPERATOR, ["ip", "link", "set", "lo", "up"])
    agents = {site: _agent(number, site, directory) for number, site in enumerate(sites, start=1)}
    (directory / "exporter.yml").write_text(exporter_config())
    (directory / "prometheus.yml").write_text(prometheus_config(agents))
    start(OPERATOR, ["prometheus-snmp-exporter", f"--config.file={directory}/exporter.yml",
                     f"--web.listen-address={EXPORTER}"])  # fmt: skip
    start(OPERATOR, ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb",
                     "--storage.tsdb.wal-segment-size=10MB", "--web.listen-address=127.0.0.1:9090"])  # fmt: skip
    for site, address in agents.items():
        # by default, the agent reads counters every 3 s; if it does not listen in time, it keeps this interval
        options = ["-v2c", "-c", COMMUNITY, "-r", "10", "-t", "0.2"]
        run(site, ["env", *file_variables(directory, site), "snmpset", *options, address, CACHE_OID, "i", str(EVERY_S)])
    return {site: Prometheus(API, {"job": JOB, "rack": site}, SOURCE, every_s=EVERY_S, timeout_s=10) for site in agents}


def _agent(number: int, site: str, directory: Path) -> str:
    """Start the SNMP agent of a site on a separate link; return its address."""
    address = f"169.254.{number}.2"
    link = (
        f"link add manage{number} netns {NAMESPACES / OPERATOR} type veth peer name manage0 netns {NAMESPACES / site}"
    )
    run_checked(site, ["ip", "-batch", "-"], stdin=link)
    for node, device, end in ((OPERATOR, f"manage{number}", f"169.254.{number}.1"), (site, "manage0", address)):
        lines = [f"address add {end}/30 dev {device}", f"link set {device} up", "link set lo up"]
        run_checked(node, ["ip", "-batch", "-"], stdin="\n".join(lines))
    config = directory / f"{site}.conf"
    config.write_text(f"agentAddress udp:{address}:161\nrwcommunity {COMMUNITY}\ndontLogTCPWrappersConnects yes\n")
    start(site, ["env", *file_variables(directory, site), "snmpd", "-f", "-Lo", "-C", "-c", str(config)])
    return address


def file_variables(directory: Path, site: str) -> list[str]:
    """Return variables that prevent net-snmp from using files of this machine."""
    return [f"SNMP_PERSISTENT_DIR={directory}/{site}", f"SNMPCONFPATH={directory}", "MIBS="]


def exporter_config() -> str:
    """Return the exporter's configuration, as JSON, which is valid YAML."""
    name = {"labels": ["ifIndex"], "labelname": "ifName", "oid": NAME_OID, "type": "DisplayString"}
    metrics = [
        {"name": metric, "oid": oid, "type": "counter", "help": metric, "lookups": [name],
         "indexes": [{"labelname": "ifIndex", "type": "gauge"}]}
        for metric, oid in COUNTER_OIDS.items()
    ]  # fmt: skip
    walk = [NAME_OID, *COUNTER_OIDS.values()]
    return json.dumps({"if_mib": {"walk": walk, "metrics": metrics, "version": 2, "auth": {"community": COMMUNITY}}})


def prometheus_config(agents: dict[str, str]) -> str:
    """Return the configuration of Prometheus, which polls the agents through the exporter; a site is a `rack`."""
    job = {
        "job_name": JOB,
        "metrics_path": "/snmp",
        "params": {"module": ["if_mib"]},
        "static_configs": [{"targets": [address], "labels": {"rack": site}} for site, address in agents.items()],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"target_label": "__address__", "replacement": EXPORTER},
        ],
    }
    return json.dumps({"global": {"scrape_interval": f"{EVERY_S}s"}, "scrape_configs": [job]})
