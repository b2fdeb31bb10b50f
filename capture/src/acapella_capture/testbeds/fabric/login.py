"""Checks that a login to nodes can succeed, before anything is requested: the user's keys, and FABRIC's bastion host.

FABRIC removes a bastion key after six months (learn.fabric-testbed.net, "Logging into FABRIC VMs"). Its bastion hosts
block a machine after repeated failed logins (fabrictestbed-extensions 2.0.9, FablibManager.probe_bastion_host), so a
rejected login is not repeated.
"""

import concurrent.futures
import time
from typing import Any

from acapella_core.errors import UserError

from .background import submit
from .credentials import WHERE, Credentials, redact

PROBE_S = 60  # timeout of a login; FABRIC's client has none
# In messages of paramiko's AuthenticationException: the connection ended during the login, or was too slow.
TRANSIENT = ("transport shut down", "timeout")
BASTION_FIX = "create a bastion key in FABRIC's portal (My SSH Keys), or run configure_and_validate on its JupyterHub"


class LoginError(UserError):
    """A failed login that a retry would not fix."""


def check_slice_key(credentials: Credentials) -> None:
    """Raise LoginError if FABRIC's client cannot log in to nodes with the slice key."""
    import paramiko  # noqa: PLC0415 (slow, and only installed with FABRIC's client)

    private, public = credentials.path("slice_private_key_file"), credentials.path("slice_public_key_file")
    key = None
    for kind in (paramiko.RSAKey, paramiko.ECDSAKey):  # key types that Node.get_paramiko_key reads
        try:
            key = kind.from_private_key_file(str(private))
            break
        except paramiko.PasswordRequiredException as error:
            fix = f"remove it with ssh-keygen -p -f {private}, or create a slice key without one"
            raise LoginError("the slice key has a passphrase", where=private, fix=fix) from error
        except OSError as error:
            raise LoginError(f"cannot be read: {error.strerror}", where=private) from error
        except (paramiko.SSHException, ValueError):
            continue
    if key is None:
        raise LoginError("not an RSA or ECDSA key, which FABRIC's client needs", where=private)
    words = public.read_text(encoding="utf-8", errors="replace").split()
    if len(words) < 2 or words[1] != key.get_base64():
        raise LoginError(f"not the public key of {private}", where=public, fix=f"ssh-keygen -y -f {private} prints it")


def check_bastion(fablib: Any, credentials: Credentials, *, tries: int, interval_s: float) -> None:
    """Log in to the bastion host. Raises LoginError if it rejects the key, UserError if it does not respond."""
    fault = ""
    for attempt in range(tries):
        if attempt:
            time.sleep(interval_s)
        login = submit(fablib.probe_bastion_host)
        if not concurrent.futures.wait([login], PROBE_S).done:
            fault = f"silent for {PROBE_S} s"
            continue
        try:
            login.result()  # without a timeout, whose TimeoutError would look like one of the login
            return
        except Exception as error:  # an exception of paramiko or of the operating system
            fault = redact(" ".join(str(error).split()) or type(error).__name__)
            if is_refusal(error):
                text = f"FABRIC's bastion host rejects user {credentials.values['bastion_username']}: {fault}"
                raise LoginError(text, where=credentials.path("bastion_key_location"), fix=BASTION_FIX) from error
    host = credentials.values["bastion_host"]
    raise UserError(f"no SSH connection to FABRIC's bastion host {host}, port 22: {fault}", where=WHERE)


def is_refusal(error: BaseException | None) -> bool:
    """Return whether an exception of paramiko is a rejected login or a key that needs a passphrase."""
    refused = any(kind.__name__ == "AuthenticationException" for kind in type(error).__mro__)
    return refused and not any(text in str(error).lower() for text in TRANSIENT)
