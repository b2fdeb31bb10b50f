"""Record FABRIC's responses as files, without tokens, names and addresses, to compare the simulated FABRIC with them.

    python -m acapella_capture.testbeds.fabric.record DIRECTORY
    python -m acapella_capture.testbeds.fabric.record DIRECTORY --slice NAME

All requests are read-only. With --slice, the named slice and its parts are also recorded. Each response is a file
NAME.json with the request, the HTTP status and the body. Tokens, e-mail addresses, IP and MAC addresses, identifiers
and SSH keys are replaced by numbered placeholders, equal values by the same placeholder. Names of people, projects and
slices are also replaced. Names of sites, hosts and switch ports remain. Review the files before you share them.
"""

import argparse
import ipaddress
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError, exit_code_of
from acapella_core.files import atomic_text

from ...settings import parse_settings
from ..telemetry import IN
from . import credentials
from .session import Session
from .switch_counters import SWITCHES

TIMEOUT_S = 120
PATTERNS = {  # by the name of the placeholder; the first pattern that matches is used
    "token": credentials.TOKEN.pattern,
    "key": r"(?:ssh|ecdsa)-[\w-]+ [A-Za-z0-9+/=]{20,}[^\"\n]*",
    "email": r"[\w.+-]+@[\w-]+\.[\w.-]+",
    "uuid": r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "mac": r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])",
    "ipv6": r"(?<![\w:])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,8}(?:/\d+)?(?![\w:])",
    "ipv4": r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?(?![\w.])",
}
ADDRESS = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in PATTERNS.items()))
PERSONAL = re.compile(
    r"(?i)^(sub|email|given_name|family_name|user_?name|owner.*|lead.*|project_?name|slice_?name|jti)$"
)


@dataclass(frozen=True)
class Request:
    """A request to FABRIC; `named` is true if key `name` in its response is the name of a person, project or slice."""

    name: str
    host: str  # key of the credentials, or a URL
    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    scheme: str = "Bearer"
    named: bool = True


def planned_requests(token: str, telemetry_url: str, slice_id: str | None) -> Iterator[Request]:
    """Yield the requests to record."""
    body = {"token": token, "type": "identity"}
    yield Request("token", "credmgr_host", "POST", "/credmgr/tokens/validate", body)
    summary = "/resources/summary?level=2&force_refresh=True"
    yield Request("resources", "orchestrator_host", "GET", summary, named=False)
    yield Request("slices", "orchestrator_host", "GET", "/slices?graph_format=NONE&as_self=True&limit=200&offset=0")
    yield Request("no-slice", "orchestrator_host", "GET", "/slices/00000000-0000-0000-0000-000000000000")
    if slice_id is not None:
        yield Request("slice", "orchestrator_host", "GET", f"/slices/{slice_id}?graph_format=GRAPHML")
        yield Request("slivers", "orchestrator_host", "GET", f"/slivers?slice_id={slice_id}&as_self=True")
    query = {"query": f"{IN}{{{SWITCHES}}}"}
    yield Request("counters", telemetry_url, "POST", "/query", query, scheme="fabric-token", named=False)


class Scrubber:
    """Replaces private values with placeholders; equal values have equal placeholders."""

    def __init__(self) -> None:
        self._placeholders: dict[tuple[str, str], str] = {}

    def placeholder(self, kind: str, value: str) -> str:
        """Return the placeholder of a value, such as `(email-1)`."""
        number = sum(known == kind for known, _ in self._placeholders) + 1
        return self._placeholders.setdefault((kind, value), f"({kind}-{number})")

    def text(self, value: str) -> str:
        """Return a text without addresses, tokens, keys and identifiers."""
        return ADDRESS.sub(self._replacement, value)

    def _replacement(self, match: re.Match) -> str:
        kind = match.lastgroup or ""
        if kind == "ipv6" and not is_address(match[0]):  # a time of day
            return match[0]
        return self.placeholder(kind, match[0])

    def scrub(self, value: Any, key: str = "", *, named: bool = False) -> Any:
        """Return a JSON value without private values; `named` as in Request."""
        if isinstance(value, Mapping):
            return {self.text(name): self.scrub(item, name, named=named) for name, item in value.items()}
        if isinstance(value, list):
            return [self.scrub(item, key, named=named) for item in value]
        if not isinstance(value, str) or not value:
            return value
        if PERSONAL.match(key) or (named and key.lower() == "name"):
            return self.placeholder("name", value)
        return self.text(value)


def is_address(text: str) -> bool:
    """Return whether a text is an IP address, with or without a prefix length."""
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def send(request: Request, values: Mapping[str, str], token: str) -> tuple[int, Any]:
    """Return the HTTP status and the body of a response; a non-JSON body is returned as text. Raises UserError."""
    import requests  # noqa: PLC0415 - slow to import

    host = values.get(request.host, request.host)
    url = (host if "://" in host else f"https://{host}").rstrip("/") + request.path
    body = {"data" if request.scheme == "fabric-token" else "json": request.body} if request.body else {}
    headers = {"Authorization": f"{request.scheme} {token}"}
    try:
        response = requests.request(request.method, url, headers=headers, timeout=TIMEOUT_S, **body)
    except requests.RequestException as error:
        raise UserError(credentials.redact(f"{request.name}: {error}"), where=url) from error
    try:
        return response.status_code, response.json()
    except ValueError:
        return response.status_code, response.text[:10_000]


def record(directory: Path, fabric_rc: str | None, telemetry_url: str, slice_name: str | None) -> list[Path]:
    """Write a file per response; return the paths. Raises UserError."""
    session = Session(credentials.find(fabric_rc))
    token, scrubber, paths = session.token(), Scrubber(), []
    slice_id = None
    if slice_name is not None:
        found = session.read("cannot list slices", lambda manager: manager.list_slices(return_fmt="dto", limit=200))
        slice_id = next((entry.slice_id for entry in found if entry.name == slice_name), None)
        if slice_id is None:
            raise UserError(f"no slice {slice_name!r}", where="--slice")
    directory.mkdir(parents=True, exist_ok=True)
    for request in planned_requests(token, telemetry_url, slice_id):
        status, body = send(request, session.credentials.values, token)
        response = {
            "request": f"{request.method} {scrubber.text(request.path)}",
            "status": status,
            "body": scrubber.scrub(body, named=request.named),
        }
        path = directory / f"{request.name}.json"
        atomic_text(path, json.dumps(response, indent=1) + "\n")
        paths.append(path)
    return paths


def main() -> int:
    """Record responses; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = parse_settings({"testbed": "fabric"}).fabric
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    parser.add_argument("--slice", metavar="NAME", help="also record this slice, which must be yours")
    parser.add_argument("--fabric-rc", metavar="FILE", help="FABRIC's configuration, as in config key fabric.fabric_rc")
    parser.add_argument("--telemetry-url", default=defaults.telemetry_url, metavar="URL",
                        help="URL of FABRIC's Prometheus (default: %(default)s)")  # fmt: skip
    args = parser.parse_args()
    try:
        for path in record(args.directory, args.fabric_rc, args.telemetry_url, args.slice):
            print(path)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
