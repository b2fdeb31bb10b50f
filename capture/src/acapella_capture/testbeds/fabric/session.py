"""FABRIC's client with a token that is kept valid; its various exceptions become one-line UserErrors.

The client's manager never refreshes its id token, so a new manager is created when it expires (credentials.id_token).
"""

import contextlib
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from acapella_core import pandas_import
from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import InsufficientResources
from . import credentials, login
from .credentials import WHERE, Credentials, redact

LOGGERS = ("fablib", "fabric.manager", "fabric.orchestrator", "fabric.credmgr", "paramiko")
RESOURCE_ERRORS = (
    "insufficient resources",
    "not available in graph node",
)  # messages of FABRIC's broker, in notices and replies
UNAUTHORIZED = 401
TOKEN_ERRORS = (
    "Token expired",
    "Unable to validate provided token",
)  # errors of the client, and of FABRIC (status 500)
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500
LOGIN_FAULT_S = 60  # for this time, an unreachable bastion host is not retried for other sites
READ_TRIES = 6  # attempts of a read-only request, beyond the client's own
Result = TypeVar("Result")

# FABRIC's information model keeps all graphs of a process in one object, which is not thread-safe, and each site has a
# thread. Reading or changing a slice object requires this lock.
GRAPH_LOCK = threading.RLock()


def client() -> Any:
    """Return the module of FABRIC's client. Raises UserError if it is not installed, or the environment has no HOME."""
    pandas_import.allow()
    try:
        from fabrictestbed_extensions.fablib import fablib  # noqa: PLC0415
    except ImportError as error:
        raise UserError(f"FABRIC's client is not installed ({error})", where=WHERE, fix="make setup-fabric") from error
    except KeyError as error:  # the client reads $HOME when imported
        raise UserError(f"the environment has no {error}", where=WHERE) from error
    return fablib


def format_error(error: BaseException) -> str:
    """Return an exception's text in one line, without tokens."""
    return redact(" ".join(str(error).split()) or type(error).__name__)[:400]


@contextlib.contextmanager
def translated_errors(action: str, where: str = WHERE) -> Iterator[None]:
    """Convert exceptions of FABRIC's client to UserError, or to InsufficientResources if FABRIC lacks resources."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the client raises bare Exceptions
        text = format_error(error)
        kind = InsufficientResources if any(phrase in text.lower() for phrase in RESOURCE_ERRORS) else UserError
        raise kind(f"{action}: {text}", where=where) from error


@contextlib.contextmanager
def graph_access(action: str) -> Iterator[None]:
    """Hold the lock of the slice graphs and translate errors."""
    with GRAPH_LOCK, translated_errors(action):
        yield


def log_file() -> Path:
    """Return the path of the client's log in a private directory of the user: all users share the default."""
    directory = Path(tempfile.gettempdir()) / f"acapella-fabric-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise UserError("not a directory of this user", where=directory)
    return directory / "fablib.log"


def is_transient(error: UserError) -> bool:
    """Return whether a retry may succeed: no reply, too many requests, or a server error."""
    cause = error.__cause__
    if cause is None or not type(cause).__name__.startswith("Orchestrator"):
        return False
    status = getattr(cause, "status_code", None)
    return status is None or status == TOO_MANY_REQUESTS or status >= SERVER_ERROR


class Session:
    """The connection to FABRIC of one collection or grid of transfers. Several threads may use it."""

    def __init__(self, user_credentials: Credentials, retry_s: float = 0):
        self.credentials = user_credentials
        self._retry_s = retry_s  # time between two attempts to read
        self._lock = threading.RLock()
        self._fablib: Any = None
        self._token: str | None = None
        self._refused: str | None = None
        self._tags: frozenset[str] | None = None
        self._login_lock = threading.Lock()
        self._login_fault: tuple[UserError, float] | None = None  # and when it was determined
        self._login_works = False

    def fablib(self) -> Any:
        """Return FABRIC's FablibManager with a valid token. Raises UserError if there is none."""
        with self._lock:
            usable = self._token and self._token != self._refused
            if (
                self._fablib is None
                or not usable
                or credentials.remaining_s(self._token) < credentials.REFRESH_BELOW_S / 2
            ):
                token = credentials.id_token(self.credentials, self._refresh, refused=self._refused)
                if self._fablib is None or token != self._token:
                    self._token, self._fablib = token, self._new_fablib(token)
            return self._fablib

    def token(self) -> str:
        """Return a valid id token. Raises UserError if there is none."""
        with self._lock:
            self.fablib()
            return self._token

    def check(self) -> None:
        """Raise UserError if FABRIC cannot be used."""
        with translated_errors("cannot connect to FABRIC"):
            self.fablib().get_manager()

    def check_login(self, settings: FabricSettings, kept: type[UserError] = UserError) -> None:
        """Raise UserError if no node can be reached over SSH, regardless of what FABRIC allocates.

        All sites share one check, because bastion hosts block a machine after repeated failed logins. Only errors of
        type `kept` are raised again without a new login.
        """
        with self._login_lock:
            self._raise_login_fault()
            if not self._login_works:
                with self._kept_login_fault(kept):
                    login.check_slice_key(self.credentials)
                    tries, interval_s = settings.ssh_tries, settings.ssh_retry_s
                    login.check_bastion(self.fablib(), self.credentials, tries=tries, interval_s=interval_s)
                self._login_works = True

    def missing_login(self, settings: FabricSettings) -> list[str]:
        """Return why no node can be reached over SSH, as a line of a plan; nothing if a login can succeed."""
        try:  # a connection that is lost once must not fail the allocation that follows the plan
            self.check_login(replace(settings, ssh_tries=1), kept=login.LoginError)
        except UserError as error:
            return [f"missing: {error}"]
        return []

    def explain_refusal(self) -> None:
        """Raise LoginError if the bastion host, not a node, rejects logins."""
        with self._login_lock, contextlib.suppress(UserError):
            self._raise_login_fault()
            with self._kept_login_fault(login.LoginError):
                login.check_bastion(self.fablib(), self.credentials, tries=1, interval_s=0)
        if self._login_fault and isinstance(self._login_fault[0], login.LoginError):
            raise self._login_fault[0]

    def _raise_login_fault(self) -> None:
        if self._login_fault:
            fault, found = self._login_fault
            if isinstance(fault, login.LoginError) or time.monotonic() - found < LOGIN_FAULT_S:
                raise fault

    @contextlib.contextmanager
    def _kept_login_fault(self, kept: type[UserError]) -> Iterator[None]:
        try:
            yield
        except kept as error:
            self._login_fault = error, time.monotonic()
            raise

    def call_manager(self, action: str, call: Callable[[Any], Result]) -> Result:
        """Call FABRIC's manager, as `call_fablib` does. Raises UserError."""
        return self.call_fablib(action, lambda fablib: call(fablib.get_manager()))

    def read(self, action: str, call: Callable[[Any], Result]) -> Result:
        """Send a read-only request to FABRIC's manager; retry if FABRIC is overloaded or unreachable.

        Raises UserError.
        """
        for attempt in range(READ_TRIES):
            try:
                return self.call_manager(action, call)
            except UserError as error:
                if attempt + 1 == READ_TRIES or not is_transient(error):
                    raise
            time.sleep(self._retry_s)
        raise AssertionError("unreachable")

    def call_fablib(self, action: str, call: Callable[[Any], Result]) -> Result:
        """Call FABRIC's FablibManager; retry once with a new token if FABRIC rejects this one.

        Raises UserError.
        """
        with translated_errors(action):
            with self._lock:
                fablib, token = self.fablib(), self._token
            try:
                return call(fablib)
            except Exception as error:
                if not self._is_token_error(error):
                    raise
            with self._lock:
                self._refused = token  # not self._token: another thread may have refreshed it since
            return call(self.fablib())

    def tags(self) -> frozenset[str]:
        """Return the project's permission tags from its token. Raises UserError if they cannot be read.

        FablibManager.get_project_tags is not used: on a failed request it returns an empty list.
        """
        if self._tags is None:
            token = self.token()
            token_data = self.call_manager(
                "cannot read the project's permissions",
                lambda manager: manager.credmgr.validate(id_token=token, return_fmt="dict"),
            )
            projects = (token_data.get("token") or {}).get("projects") or []
            matching = [project for project in projects if project.get("uuid") == self.credentials.values["project_id"]]
            if not matching:
                raise UserError("the token does not belong to the project in fabric_rc", where=WHERE)
            self._tags = frozenset(matching[0].get("tags") or [])
        return self._tags

    def _is_token_error(self, error: Exception) -> bool:
        return getattr(error, "status_code", None) == UNAUTHORIZED or any(text in str(error) for text in TOKEN_ERRORS)

    def _new_fablib(self, token: str) -> Any:
        self.credentials.check()
        module, values = client(), dict(self.credentials.values)
        for name in LOGGERS:
            logger = logging.getLogger(name)
            if not logger.handlers:  # without a handler, Python prints warnings and tracebacks
                logger.addHandler(logging.NullHandler())
            if not any(isinstance(filter_, credentials.TokenFilter) for filter_ in logger.filters):
                logger.addFilter(credentials.TokenFilter())
        with translated_errors("FABRIC's client cannot start"):
            return module.FablibManager(
                fabric_rc="",  # already read; the client would not expand variables
                id_token=token,
                log_level="INFO",
                log_file=str(log_file()),
                validate_config=False,  # validation would create and replace the user's keys
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
            raise UserError("FABRIC did not issue a new token", where=WHERE)
        return tokens[0]
