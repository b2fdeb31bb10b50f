"""A FABRIC on loopback for the tests: credential manager, orchestrator and metrics, in REST over HTTP.

It implements the protocol of FABRIC's client (fabrictestbed 2.0.8), with slices as graphs of FABRIC's information
model, and fails as tests request. behaviors.tsv lists what it does like FABRIC; nothing beyond this is tested.
"""

import base64
import copy
import datetime
import http.server
import json
import re
import sys
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass

from acapella_testing.fabric.behavior import UNSTABLE, Faults
from acapella_testing.fabric.graphs import (
    OWN,
    filled,
    foreign_mirrors,
    mirrors_by_receiver,
    needs,
    place,
    ports_with_several_mirrors,
    reused_receivers,
    with_failed_parts,
)

GONE = ("Closing", "Dead")
STABLE = ("StableOK", "StableError")
MODIFIED = ("ModifyOK", "ModifyError")
PROJECT = "11111111-2222-3333-4444-555555555555"
TAGS = ("Net.PortMirroring", "Component.SmartNIC_ConnectX_5", "Component.SmartNIC_ConnectX_6", "VM.NoLimit")
HOST = {"cores": 32, "ram": 128, "disk": 1000, "nics": {"SmartNIC-ConnectX-6": 1, "SmartNIC-ConnectX-5": 1}}
LIMITS = {"cores": (2, "VM.NoLimitCPU"), "ram": (10, "VM.NoLimitRAM"), "disk": (10, "VM.NoLimitDisk")}
LEASE = "%Y-%m-%d %H:%M:%S %z"
LINKS = [  # as returned by query_links
    {"name": "l1", "layer": "L2", "bandwidth": 100, "endpoints": [
        {"site": "STAR", "node": "n1", "port": "HundredGigE0/0/0/15.3370"},
        {"site": "UTAH", "node": "n2", "port": "TenGigE0/0/0/22/0.3370"}]},
    {"name": "l2", "layer": "L2", "bandwidth": 100, "endpoints": [
        {"site": "STAR", "node": "n1", "port": "HundredGigE0/0/0/15.3371"},
        {"site": "WASH", "node": "n3", "port": "HundredGigE0/0/0/9.100"}]},
    {"name": "l3", "layer": "L2", "bandwidth": 200, "endpoints": [
        {"site": "STAR", "node": "n1", "port": "Bundle-Ether10.3372"},
        {"site": "UTAH", "node": "n2", "port": "Bundle-Ether1/0.3372"}]},
]  # fmt: skip
INTERFACES = {  # ifName by rack, including interfaces that are not ports
    "star": ("HundredGigE0/0/0/5", "TwentyFiveGigE0/0/0/12/1", "HundredGigE0/0/0/15", OWN, "Loopback0",
             "HundredGigE0/0/0/15.3370", "Optics0/0/0/5", "CoherentDSP0/0/0/5", "PTP0/RP0/CPU0/0"),
    "utah": ("HundredGigE0/0/0/2",),
    "wash": ("HundredGigE0/0/0/1",),
}  # fmt: skip


def tomorrow() -> str:
    """Return the end of a lease whose request has none."""
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=24)).strftime(LEASE)


def token(lasts_s: float) -> str:
    """Return an id token with this lifetime; its signature is not checked."""
    parts = ({"alg": "none"}, {"exp": time.time() + lasts_s, "jti": uuid.uuid4().hex})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "sig"])


@dataclass
class StoredSlice:
    """A slice."""

    slice_id: str
    name: str
    state: str
    model: str
    lease_end: str
    after: str  # the state after `queries` requests for it
    queries: int = 1
    notice: str = ""
    holds: bool = True  # whether it has its resources
    failed_service: str = ""  # notice of a service that failed and is kept
    accepted: str = ""  # after a failed modification: the model without the parts that failed
    hidden: bool = False  # whether lists may omit it


class Orchestrator:
    """The server and its state; `url` stands for all hosts of FABRIC."""

    def __init__(self, sites: dict[str, list[dict]] | None = None):
        self.sites = copy.deepcopy(sites or {"STAR": [HOST, HOST], "UTAH": [HOST], "WASH": [HOST]})
        self.states: dict[str, str] = {}  # of sites that are not Active
        self.faults = Faults()
        self.slices: dict[str, StoredSlice] = {}
        self.tags: tuple[str, ...] = TAGS
        self.tokens: set[str] = set()
        self.refreshes: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.forced: list[bool] = []  # force_refresh of each resource query
        self.renewals: list[str] = []
        self._lock = threading.RLock()
        self._server = Server(("127.0.0.1", 0), handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def grant(self, lasts_s: float = 4 * 3600) -> str:
        """Return a token that the server accepts."""
        issued = token(lasts_s)
        self.tokens.add(issued)
        return issued

    def alive(self) -> list[StoredSlice]:
        return [each for each in self.slices.values() if each.state not in GONE]

    def count(self, method: str, path: str = "/") -> int:
        """Return the number of requests so far with this method and path prefix."""
        return sum(verb == method and asked.startswith(path) for verb, asked in self.requests)

    def posts(self, path: str) -> int:
        return self.count("POST", path)

    def modifications(self) -> int:
        """Return the number of requests that modify a slice."""
        return self.count("PUT")

    def answer(self, method: str, path: str, query: dict, body: bytes, authorization: str) -> tuple[int, object]:
        """Return status and JSON of a request."""
        time.sleep(self.faults.latency_s)
        with self._lock:
            self.requests.append((method, path))
            if self.faults.too_many > 0 and path.startswith("/sli"):
                self.faults.too_many -= 1
                return 429, {"errors": [{"message": "too many requests"}]}
            if self.faults.expire_after is not None:
                self.faults.expire_after -= 1
                if self.faults.expire_after < 0:
                    self.tokens.clear()
                    self.faults.expire_after = None
            if path.startswith("/credmgr/"):
                return self._credentials(path, json.loads(body))
            if path in ("/query", "/query_range"):
                return self._metrics(urllib.parse.parse_qs(body.decode()), authorization)
            if authorization.removeprefix("Bearer ") not in self.tokens:
                return refused("Unable to validate provided token: INVALID/Signature has expired")
            for pattern, verb, respond in self._routes():
                found = re.fullmatch(pattern, path)
                if found and verb == method and found.groupdict().get("slice_id") in (None, *self.slices):
                    return respond(*found.groups(), query, body)
            return 404, {"errors": [{"message": f"{method} {path}"}]}

    def loses(self, path: str) -> bool:
        """Return whether the answer to this request is lost."""
        with self._lock:
            lost = bool(self.faults.lost_answers) and path.startswith(self.faults.lost_answers[0])
            if lost:
                self.faults.lost_answers.pop(0)
            return lost

    def _routes(self):
        return (
            ("/resources/summary", "GET", self._summary),
            ("/slices/creates", "POST", self._create),
            ("/slices", "GET", self._list),
            ("/slices/modify/(?P<slice_id>[^/]+)", "PUT", self._modify),
            ("/slices/modify/(?P<slice_id>[^/]+)/accept", "POST", self._accept),
            ("/slices/renew/(?P<slice_id>[^/]+)", "POST", self._renew),
            ("/slices/delete/(?P<slice_id>[^/]+)", "DELETE", self._delete),
            ("/slices/(?P<slice_id>[^/]+)", "GET", self._show),
            ("/slivers", "GET", self._slivers),
        )

    def _credentials(self, path: str, body: dict) -> tuple[int, object]:
        if path == "/credmgr/tokens/validate":
            project = {"uuid": PROJECT, "name": "p", "tags": list(self.tags), "active": True}
            payload = json.loads(base64.urlsafe_b64decode(body["token"].split(".")[1] + "=="))
            claims = {"exp": int(payload["exp"]), "uuid": "u", "email": "e@x", "projects": [project]}
            return (200, {"token": claims}) if body["token"] in self.tokens else (401, {"errors": []})
        if path == "/credmgr/tokens/refresh":
            self.refreshes.append(body["refresh_token"])
            if body["refresh_token"] != f"refresh-{len(self.refreshes)}":  # a refresh token is valid once
                return 400, {"errors": [{"message": "used"}]}
            return 200, {"data": [{"id_token": self.grant(), "refresh_token": f"refresh-{len(self.refreshes) + 1}"}]}
        return 404, {}

    def _metrics(self, form: dict, authorization: str) -> tuple[int, object]:
        if self.faults.metrics_status != 200 or authorization.removeprefix("fabric-token ") not in self.tokens:
            return self.faults.metrics_status if self.faults.metrics_status != 200 else 401, {"error": "not for you"}
        asked, now, result = form["query"][0], time.time(), []
        rack = re.search(r'rack="([^"]+)"', asked)
        for name, ports in INTERFACES.items():
            for number, port in enumerate(ports):
                if rack and rack[1] != name:
                    continue
                rate = (1000 if asked.startswith("ifHCInOctets") else 500) * (number + 1)  # bytes per second
                series = {"metric": {"rack": name, "job": "data-sw", "ifName": port}}
                if "[" in asked:
                    series["values"] = [[now - age, str(round(10**9 - age * rate))] for age in (90, 60, 30, 1)]
                else:
                    series["value"] = [now, "1"]
                result.append(series)
        return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}

    def _hosts(self, without: str = "") -> list[dict]:
        """Return the hosts with the resources that all slices (but one) leave. Nodes use the first host that fits."""
        hosts = []
        for site, kinds in self.sites.items():
            hosts += [
                {"name": f"{site.lower()}-w{number}.fabric-testbed.net", "site": site,
                 "state": self.states.get(site, "Active"), "maintenance": kind.get("maintenance", False),
                 **{f"{key}_available": kind[key] for key in ("cores", "ram", "disk")},
                 **{f"{key}_capacity": kind[key] for key in ("cores", "ram", "disk")},
                 "components": {nic: {"capacity": n, "allocated": 0} for nic, n in kind["nics"].items()}}
                for number, kind in enumerate(kinds, start=1)
            ]  # fmt: skip
        for stored in self.alive():
            if without == stored.slice_id or not stored.holds:
                continue
            for node in needs(stored.accepted or stored.model):
                if not place(node, hosts, running=True):
                    raise AssertionError(f"{stored.name} does not fit")
        return hosts

    def _fits(self, model: str, without: str = "") -> bool:
        hosts = self._hosts(without)
        before = self.slices.get(without)
        running = {node.name for node in needs(before.accepted or before.model)} if before and before.holds else set()
        return all(place(node, hosts, running=node.name in running) for node in needs(model))

    def _summary(self, query: dict, _body: bytes) -> tuple[int, object]:
        self.forced.append(query.get("force_refresh") == ["True"])
        if self.faults.no_summary:
            return 500, {"errors": []}
        only = query.get("includes", [""])[0]
        required = set(only.split(", ")) if only else set(self.sites)
        sites = [{"name": name, "state": self.states.get(name, "Active"), "hosts": []}
                 for name in self.sites if name in required]  # fmt: skip
        sites += [{"name": "MAINT", "state": "Maint", "hosts": []}] if not only else []
        hosts = [{key: value for key, value in host.items() if key != "maintenance"}
                 for host in self._hosts() if host["site"] in required]  # fmt: skip
        return 200, {"data": [{"sites": sites, "hosts": hosts, "links": LINKS, "facility_ports": []}]}

    def _create(self, query: dict, body: bytes) -> tuple[int, object]:
        status = self.faults.create_status.pop(0) if self.faults.create_status else 200
        name = query["name"][0]
        if any(each.name == name for each in self.alive()):
            return refused(f"Slice {name} already exists")
        model = json.loads(body)["graph_model"]
        if reason := self._lacking(model) or self._in_maintenance(model):
            return refused(reason)
        if status not in (200, 503):  # 503: rejected by the gateway, nothing is created
            self._begin(name, query, body)
        elif status == 200:
            return 200, {"data": self._slivers_of(self._begin(name, query, body))}
        return status, {"errors": [{"message": "Internal Server Error"}]}

    def _lacking(self, model: str) -> str:
        """Return why the policy refuses a slice; empty if the project has all permissions."""
        wanted = needs(model)
        needed = [("Component.SmartNIC", f"Component.{nic.replace('-', '_')}")
                  for node in wanted for nic in node.nics if nic.startswith("SmartNIC")]  # fmt: skip
        needed += [("Net.PortMirroring",)] * bool(foreign_mirrors(model))
        needed += [(tag, "VM.NoLimit") for node in wanted for key, (limit, tag) in LIMITS.items()
                   if (node.asked[key] or 0) > limit]  # fmt: skip
        lacking = [tags for tags in needed if not set(tags) & set(self.tags)]
        reason = f"Policy Violation: Your project is lacking {' or '.join(lacking[0])}" if lacking else ""
        return reason and f"PDP Failure: PDP Authorization check failed - {reason}"

    def _in_maintenance(self, model: str) -> str:
        """Return why a slice is refused if one of its sites is in maintenance."""
        found = [node.site for node in needs(model) if self.states.get(node.site) == "Maint"]
        return f"Site {found[0]} in Maint" if found else ""

    def _granted(self, requested: str) -> datetime.datetime:
        """Return the end of the lease that FABRIC grants for a requested end."""
        limit = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=self.faults.lease_limit_h)
        return min(datetime.datetime.strptime(requested, LEASE), limit)

    def _begin(self, name: str, query: dict, body: bytes) -> StoredSlice:
        model = json.loads(body)["graph_model"]
        failed_mirror = self.faults.first_mirrors_fail and bool(mirrors_by_receiver(model))
        refused = self.faults.refuse or failed_mirror or not self._fits(model)
        stored = StoredSlice(
            slice_id=str(uuid.uuid4()), name=name, state="Configuring", model=model,
            lease_end=self._granted(query.get("lease_end_time", [tomorrow()])[0]).strftime(LEASE),
            after="StableError" if refused else "StableOK", queries=self.faults.queries,
            notice=self.faults.notice if refused else "", holds=not refused, hidden=self.faults.hidden > 0,
        )  # fmt: skip
        stored.model = filled(model, "Closed" if refused else "Active", self._management_ip())
        self.slices[stored.slice_id] = stored
        return stored

    def _management_ip(self) -> str:
        return "2001:db8::1" if self.faults.ipv6_management else "127.0.0.1"

    def _advance(self, stored: StoredSlice) -> None:
        """Advance a slice's state with each query, so that tests need not wait."""
        if stored.state == "Closing":
            stored.state = "Dead"
        if stored.state in UNSTABLE and not self.faults.stuck:
            if stored.queries <= 0:
                stored.state = stored.after
            stored.queries -= 1

    def _description(self, stored: StoredSlice, *, with_model: bool = False) -> dict:
        model = {"model": stored.model} if with_model else {}
        return {"slice_id": stored.slice_id, "name": stored.name, "state": stored.state, "project_id": PROJECT,
                "lease_end_time": stored.lease_end, **model}  # fmt: skip

    def _list(self, query: dict, _body: bytes) -> tuple[int, object]:
        states, name = query.get("states"), query.get("name", [""])[0]
        hidden, self.faults.hidden = self.faults.hidden > 0, max(0, self.faults.hidden - 1)
        found = [
            stored for stored in self.slices.values()
            if name in ("", stored.name) and (not states or stored.state in states) and not (hidden and stored.hidden)
        ]  # fmt: skip
        first = int(query.get("offset", ["0"])[0])
        found = found[first : first + min(int(query["limit"][0]), self.faults.page)]
        for stored in found:
            self._advance(stored)
        return 200, {"data": [self._description(stored) for stored in found]}

    def _show(self, slice_id: str, query: dict, _body: bytes) -> tuple[int, object]:
        stored = self.slices[slice_id]
        self._advance(stored)
        return 200, {"data": [self._description(stored, with_model=query.get("graph_format") != ["NONE"])]}

    def _slivers_of(self, stored: StoredSlice) -> list[dict]:
        names = [node.name for node in needs(stored.model)] or ["none"]
        return [{"sliver_id": f"sliver-{name}", "slice_id": stored.slice_id, "graph_node_id": name,
                 "notice": stored.notice, "sliver": {"Name": name}, "sliver_type": "NodeSliver",
                 "state": "Active"} for name in names]  # fmt: skip

    def _slivers(self, query: dict, _body: bytes) -> tuple[int, object]:
        return 200, {"data": self._slivers_of(self.slices[query["slice_id"][0]])}

    def _modify(self, slice_id: str, _query: dict, body: bytes) -> tuple[int, object]:
        stored = self.slices[slice_id]
        if stored.state not in STABLE:
            return refused(f"Unable to modify Slice# {slice_id} that is not yet stable, try again later")
        model = body.decode()
        if reason := self._lacking(model) or self._in_maintenance(model):
            return refused(reason)
        reused = reused_receivers(stored.model, model)
        repeated = ports_with_several_mirrors(model) if self.faults.one_mirror_per_port else []
        failed = self.faults.modify_fails or bool(reused or repeated) or not self._fits(model, without=slice_id)
        if failed:
            stored.accepted, stored.model = stored.model, with_failed_parts(stored.model, model, self._management_ip())
        else:
            stored.model = filled(model, "Active", self._management_ip())
        reason = f"interface {reused[0]} is in use by another service" if reused else self.faults.notice
        reason = f"port {repeated[0]} is mirrored already" if repeated else reason
        if failed and self.faults.failed_service_stays:
            stored.failed_service = reason
        ends_well = not failed and not stored.failed_service
        stored.state, stored.after, stored.queries = "Modifying", "ModifyOK" if ends_well else "ModifyError", 1
        stored.notice = "" if ends_well else reason if failed else stored.failed_service
        return 200, {"data": self._slivers_of(stored)}

    def _accept(self, slice_id: str, _query: dict, _body: bytes) -> tuple[int, object]:
        stored = self.slices[slice_id]
        if stored.state in MODIFIED:
            stored.state = "StableError" if stored.state == "ModifyError" else "StableOK"
            stored.model, stored.accepted = stored.accepted or stored.model, ""
        return 200, {"data": [self._description(stored, with_model=True)]}

    def _renew(self, slice_id: str, query: dict, _body: bytes) -> tuple[int, object]:
        stored, requested = self.slices[slice_id], query["lease_end_time"][0]
        self.renewals.append(requested)
        if stored.state in GONE:
            return 400, {"errors": [{"message": f"Slice# {slice_id} already closed"}]}
        if stored.state not in STABLE + MODIFIED:
            return refused(f"Unable to renew Slice# {slice_id} that is not yet stable, try again later")
        if reason := self._in_maintenance(stored.model):
            return refused(reason)
        end, current = self._granted(requested), datetime.datetime.strptime(stored.lease_end, LEASE)
        if end.replace(microsecond=0) < current:
            return refused("Attempted new term end time is shorter than current slice end time")
        if end.strftime(LEASE) != stored.lease_end:
            stored.after, stored.state, stored.queries = stored.state, "Configuring", 1
        stored.lease_end = end.strftime(LEASE)
        return 200, {"data": []}

    def _delete(self, slice_id: str, _query: dict, _body: bytes) -> tuple[int, object]:
        stored = self.slices[slice_id]
        if stored.state in GONE:
            return 200, {"data": []}
        if stored.state in UNSTABLE:
            return refused(f"Unable to delete Slices ['{slice_id}'] that are not yet stable, try again later")
        if stored.name == self.faults.kept:
            return refused("not now")
        stored.state = "Closing"
        return 200, {"data": []}


def refused(reason: str) -> tuple[int, object]:
    """Return the answer to a request that FABRIC refuses: nearly all reasons have status 500."""
    return 500, {"errors": [{"message": "Internal Server Error", "details": reason}]}


class Server(http.server.ThreadingHTTPServer):
    """Prints nothing about connections that clients have closed, for example after Ctrl-C."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def handler(owner: Orchestrator) -> type[http.server.BaseHTTPRequestHandler]:
    """Return the class that passes requests to the orchestrator."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet: two would wait for an acknowledgment
        disable_nagle_algorithm = True

        def respond(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization") or ""
            path = parts.path if parts.path == "/" else parts.path.rstrip("/")
            status, answer = owner.answer(self.command, path, urllib.parse.parse_qs(parts.query), body, authorization)
            if owner.loses(path):
                self.close_connection = True
                return
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, *_):
            pass

    return Handler
