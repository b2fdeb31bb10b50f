"""FABRIC's client with a token that stays valid, and its many exceptions as UserError in one line.

The client's manager never refreshes: it is given an id token, and made anew when that ends (credentials.id_token).
"""

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from acapella_core.errors import UserError

from ..base import InsufficientResources
from . import credentials
from .credentials import WHERE, Credentials, redact

LOGGERS = ("fablib", "fabric.manager", "fabric.orchestrator", "fabric.credmgr", "paramiko")
RESOURCE_ERRORS = (
    "insufficient resources",
    "not available in graph node",
)  # of FABRIC's broker, in notices and answers
UNAUTHORIZED = 401
Result = TypeVar("Result")

# FABRIC's information model keeps all graphs of a process in one, "for the moment not thread-safe", and sites are used
# by a thread each: whoever looks into a slice's object or changes it holds this lock.
GRAPH_LOCK = threading.RLock()


def client() -> Any:
    """The module of FABRIC's client. Raises UserError where it is not installed, or there is no home for its cache."""
    try:
        from fabrictestbed_extensions.fablib import fablib  # noqa: PLC0415
    except ImportError as error:
        raise UserError(f"FABRIC's client is not installed ({error})", where=WHERE, fix="make setup-fabric") from error
    except KeyError as error:  # it reads $HOME as it is imported
        raise UserError(f"the environment has no {error}", where=WHERE) from error
    return fablib


def format_error(error: BaseException) -> str:
    """An exception's text in one line, without tokens."""
    return redact(" ".join(str(error).split()) or type(error).__name__)[:400]


@contextlib.contextmanager
def translated_errors(action: str, where: str = WHERE) -> Iterator[None]:
    """What FABRIC's client raises within becomes a UserError, Refused where FABRIC has not got that much."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # it raises bare Exceptions
        text = format_error(error)
        kind = InsufficientResources if any(words in text.lower() for words in RESOURCE_ERRORS) else UserError
        raise kind(f"{action}: {text}", where=where) from error


@contextlib.contextmanager
def graph_access(action: str) -> Iterator[None]:
    """As `told`, with the graphs of slices to oneself."""
    with GRAPH_LOCK, translated_errors(action):
        yield


def log_file() -> Path:
    """The client's log in a directory of the user's own: its default is the same for all users."""
    directory = Path(tempfile.gettempdir()) / f"acapella-fabric-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise UserError("belongs to somebody else", where=directory)
    return directory / "fablib.log"


class Session:
    """The way to FABRIC of one collection. Several threads may use it."""

    def __init__(self, found: Credentials):
        self.credentials = found
        self._lock = threading.RLock()
        self._fablib: Any = None
        self._token: str | None = None
        self._refused: str | None = None
        self._tags: frozenset[str] | None = None

    def fablib(self) -> Any:
        """FABRIC's FablibManager with a valid token. Raises UserError where there is none."""
        with self._lock:
            lasting = self._token and self._token != self._refused
            if (
                self._fablib is None
                or not lasting
                or credentials.remaining_s(self._token) < credentials.REFRESH_BELOW_S / 2
            ):
                token = credentials.id_token(self.credentials, self._refresh, refused=self._refused)
                if self._fablib is None or token != self._token:
                    self._token, self._fablib = token, self._new_fablib(token)
            return self._fablib

    def token(self) -> str:
        """A valid id token. Raises UserError where there is none."""
        with self._lock:
            self.fablib()
            return self._token

    def check(self) -> None:
        """Raises UserError where there is no way to FABRIC."""
        with translated_errors("no way to FABRIC"):
            self.fablib().get_manager()

    def call_manager(self, action: str, call: Callable[[Any], Result]) -> Result:
        """Ask FABRIC's manager something, as `use` does. Raises UserError."""
        return self.call_fablib(action, lambda fablib: call(fablib.get_manager()))

    def call_fablib(self, action: str, call: Callable[[Any], Result]) -> Result:
        """Have FABRIC's FablibManager do something; once more with a new token where FABRIC refuses this one.

        Raises UserError.
        """
        with translated_errors(action):
            try:
                return call(self.fablib())
            except Exception as error:
                if not self._is_token_error(error):
                    raise
            with self._lock:
                self._refused = self._token
            return call(self.fablib())

    def tags(self) -> frozenset[str]:
        """The permission tags of the project, as its token tells them. Raises UserError where none can be read.

        Not by FablibManager.get_project_tags, which takes a failed question for a project without permissions.
        """
        if self._tags is None:
            token = self.token()
            token_data = self.call_manager(
                "cannot read the project's permissions",
                lambda manager: manager.credmgr.validate(id_token=token, return_fmt="dict"),
            )
            projects = (token_data.get("token") or {}).get("projects") or []
            ours = [project for project in projects if project.get("uuid") == self.credentials.values["project_id"]]
            if not ours:
                raise UserError("the token is not of the project that fabric_rc names", where=WHERE)
            self._tags = frozenset(ours[0].get("tags") or [])
        return self._tags

    def _is_token_error(self, error: Exception) -> bool:
        return getattr(error, "status_code", None) == UNAUTHORIZED or "Token expired" in str(error)

    def _new_fablib(self, token: str) -> Any:
        self.credentials.check()
        module, values = client(), dict(self.credentials.values)
        for name in LOGGERS:
            logger = logging.getLogger(name)
            if not any(isinstance(each, credentials.TokenFilter) for each in logger.filters):
                logger.addFilter(credentials.TokenFilter())
        with translated_errors("FABRIC's client does not start"):
            return module.FablibManager(
                fabric_rc="",  # read already; the client would not expand what it names
                id_token=token,
                log_level="INFO",
                log_file=str(log_file()),
                validate_config=False,  # it would make and replace the user's keys
                **values,
            )

    def _refresh(self, refresh_token: str) -> Mapping[str, Any]:
        client()
        from fabrictestbed.external_api.credmgr_client import CredmgrClient  # noqa: PLC0415

        values = self.credentials.values
        tokens = CredmgrClient(values["credmgr_host"]).refresh(
            refresh_token=refresh_token, project_id=values["project_id"], return_fmt="dict"
        )
        if not tokens or not tokens[0].get("id_token"):
            raise UserError("FABRIC gave no new token", where=WHERE)
        return tokens[0]
