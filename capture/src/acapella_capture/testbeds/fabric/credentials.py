"""Credentials of a FABRIC user, and a valid token.

Sources in this order: fabric_rc (named by the config or FABRIC_RC_FILE, or in a directory of a FABRIC JupyterHub), the
environment (FABRIC_*), defaults. Needs neither FABRIC's client nor, except for a refresh, the network. Messages never
contain tokens or keys.
"""

import base64
import contextlib
import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

WHERE = "testbed fabric"
PORTAL = "create a token at https://cm.fabric-testbed.net (JupyterHub has one in ~/.tokens.json)"
REFRESH_BELOW_S = 1800  # shorter-lived tokens are refreshed first, as FABRIC's own manager does
TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*|NB2HI4DTHIXS6[\w-]+")  # JWT; refresh token of CILogon
EXPORT = re.compile(r"^\s*export\s+FABRIC_(\w+)=(.*)$")
DEFAULTS = {
    "token_location": "~/.tokens.json",
    "bastion_key_location": "{config}/fabric_bastion_key",
    "slice_private_key_file": "{config}/slice_key",
    "slice_public_key_file": "{config}/slice_key.pub",
    "credmgr_host": "cm.fabric-testbed.net",
    "orchestrator_host": "orchestrator.fabric-testbed.net",
    "core_api_host": "uis.fabric-testbed.net",
    "bastion_host": "bastion.fabric-testbed.net",
}
KEYS = (*DEFAULTS, "project_id", "bastion_username")
PATHS = ("token_location", "bastion_key_location", "slice_private_key_file", "slice_public_key_file")
DIRECTORIES = ("~/work/fabric_config", "~/fabric_config")


def redact(text: object) -> str:
    """Return a text with tokens removed."""
    return TOKEN.sub("(token)", str(text))


class TokenFilter(logging.Filter):
    """Removes tokens from the log messages of FABRIC's client, which logs its whole configuration on some errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info:  # tracebacks contain requests
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True


@dataclass(frozen=True)
class Credentials:
    """Paths, host names and the project; contains no secrets."""

    rc: Path | None
    values: Mapping[str, str]

    def path(self, key: str) -> Path:
        return Path(self.values[key])

    @property
    def tokens(self) -> Path:
        return self.path("token_location")

    def missing(self) -> list[str]:
        """Return the missing values and files of a collection, one line per item, with the place that was searched."""
        lines = [f"no {key}: export FABRIC_{key.upper()}=... in {self.rc or DIRECTORIES[0] + '/fabric_rc'}"
                 for key in ("project_id", "bastion_username") if not self.values.get(key)]  # fmt: skip
        lines += [f"no file {self.values[key]} ({key})" for key in PATHS if not self.path(key).is_file()]
        return lines

    def check(self) -> None:
        """Raise UserError, which names the first missing value or file."""
        lines = self.missing()
        if lines:
            more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
            raise UserError(lines[0] + more, where=WHERE, fix="see docs/fabric.md")


def find(rc: str | None = None, environment: Mapping[str, str] = os.environ) -> Credentials:
    """Find and read fabric_rc. Raises UserError if the config or FABRIC_RC_FILE names a missing file."""
    configured = rc or environment.get("FABRIC_RC_FILE")
    candidates = [Path(configured)] if configured else [Path(directory) / "fabric_rc" for directory in DIRECTORIES]
    rc_file = next((path.expanduser() for path in candidates if path.expanduser().is_file()), None)
    if configured and rc_file is None:
        raise UserError("no such file", where=configured)
    values = {key: environment[f"FABRIC_{key.upper()}"] for key in KEYS if environment.get(f"FABRIC_{key.upper()}")}
    values |= read_rc(rc_file, environment) if rc_file else {}
    directory = str(rc_file.parent if rc_file else Path(DIRECTORIES[0]).expanduser())
    for key, default in DEFAULTS.items():
        values.setdefault(key, default.format(config=directory))
    for key in PATHS:
        values[key] = str(Path(values[key]).expanduser())
    return Credentials(rc_file, values)


def read_rc(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a fabric_rc: `export FABRIC_KEY=value` lines, or FABRIC's YAML; `$HOME` is expanded."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [EXPORT.match(line) for line in text.splitlines()]
    pairs = {match[1].lower(): match[2].strip().strip("\"'") for match in lines if match}
    if not pairs:
        pairs = {match[1]: match[2].strip().strip("\"'") for match in re.finditer(r"(?m)^\s+(\w+):\s*(\S.*)$", text)}
    home = environment.get("HOME", "~")
    return {key: value.replace("${HOME}", home).replace("$HOME", home) for key, value in pairs.items()
            if key in KEYS and value}  # fmt: skip


def expires_s(id_token: str) -> float | None:
    """Return the expiry time of a JWT, seconds since 1970; None if it has none."""
    try:
        payload = id_token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def remaining_s(id_token: str) -> float:
    """Return the remaining lifetime of a token in seconds; infinite if it has no expiry time."""
    end = expires_s(id_token)
    return float("inf") if end is None else end - time.time()


def id_token(
    credentials: Credentials, refresh: Callable[[str], Mapping[str, str]], *, refused: str | None = None
) -> str:
    """Return a valid id token, refreshed at most once even if several processes need it.

    Concurrent processes would each use up the refresh token and overwrite each other's file. Therefore one of them
    refreshes while holding a lock, and the next reads the new file. `refresh` exchanges a refresh token; `refused` is a
    token that FABRIC has rejected. Raises UserError if there is no valid token.
    """
    path = credentials.tokens
    with locked(path):
        try:
            tokens = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserError("cannot read the token file", where=path, fix=PORTAL) from error
        if not isinstance(tokens, dict):
            raise UserError("not a file of tokens", where=path, fix=PORTAL)
        current, key = tokens.get("id_token"), tokens.get("refresh_token")
        if current and current != refused and remaining_s(current) > REFRESH_BELOW_S:
            return current
        fault = "no refresh token"
        if key:
            try:
                fresh = {name: value for name, value in refresh(key).items() if value}
            except Exception as error:  # any exception of the client: the old token may still be valid
                fault = " ".join(redact(error).split())[:200] or type(error).__name__
            else:
                atomic_text(path, json.dumps(tokens | fresh, indent=2) + "\n")
                return fresh["id_token"]
        if current and current != refused and remaining_s(current) > 0:
            return current
        raise UserError(f"the token has expired and could not be refreshed: {fault}", where=path, fix=PORTAL)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a token file; do nothing if the file is missing or its directory read-only."""
    try:
        path.stat()
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
