"""Logins to FABRIC: what is checked before anything is requested, and what happens if a login is refused."""

import errno
import re
import shlex
import subprocess
from unittest.mock import Mock

import pytest
from acapella_testing.fabric.loopback import SITE, Loopback
from acapella_testing.fabric.nodes import BASTION
from acapella_testing.runs.in_process import call_before
from fabrictestbed_extensions.fablib.fablib import FablibManager
from paramiko import AuthenticationException, ECDSAKey

from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.login import LoginError
from acapella_core.errors import UserError


def logins(fabric: Loopback) -> int:
    """Return the number of logins to the bastion host."""
    return fabric.nodes.logins.count(BASTION)


def test_nothing_is_created_if_the_bastion_host_refuses_the_key(fabric, collection):
    """The login is tried once for all sites: bastion hosts block machines with repeated failed logins."""
    fabric.nodes.expired_key = True
    done = collection()
    assert done.status == 2 and "bastion host rejects user me_0000" in done.err and "(My SSH Keys)" in done.err
    assert done.error.startswith("acapella: error: ")
    assert logins(fabric) == 1 and not fabric.orchestrator.slices


def test_plan_names_a_refused_login(fabric, collection):
    plan = collection("--dry-run")
    assert plan.status == 0 and "missing" not in plan.out and logins(fabric) == 1
    fabric.nodes.expired_key = True
    plan = collection("--dry-run")
    assert plan.status == 0 and logins(fabric) == 2
    assert re.search(r"(?m)^missing: \S+bastion_key: FABRIC's bastion host rejects user me_0000", plan.out)


def test_nothing_is_created_if_the_bastion_host_is_not_reachable(fabric, testbed):
    fabric.nodes.refusing = True
    with pytest.raises(UserError, match=r"no SSH connection to FABRIC's bastion host bastion\.invalid, port 22"):
        testbed.allocate(SITE, ResourceRequest(1))
    fabric.nodes.refusing = False
    with pytest.raises(UserError, match="no SSH connection"):  # the other sites do not wait, too
        testbed.allocate("UTAH", ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_login_that_loses_its_connection_is_repeated(fabric, monkeypatch):
    """Paramiko raises the same exception as for a refused key."""
    texts = ("Authentication failed: transport shut down or saw EOF", "Authentication timeout.")
    faults = [AuthenticationException(text) for text in texts]
    call_before(monkeypatch, FablibManager, "probe_bastion_host", Mock(side_effect=[*faults, None]))
    with fabric.allocated():
        assert logins(fabric) == 1


def test_operating_system_timeout_is_reported_as_such(fabric, monkeypatch):
    """The client raises the same exception for a login that does not end."""
    timeout = TimeoutError(errno.ETIMEDOUT, "Connection timed out")
    monkeypatch.setattr(FablibManager, "probe_bastion_host", Mock(side_effect=timeout))
    with pytest.raises(UserError, match=r"port 22: \[Errno 110\] Connection timed out"):
        fabric.testbed().allocate(SITE, ResourceRequest(1))


def test_key_that_expires_during_a_collection_is_not_retried(fabric, testbed, instance):
    fabric.nodes.expired_key, fabric.nodes.booting = True, 1000
    fabric.nodes.lose_connections()
    before = len(fabric.nodes.logins)
    for _ in range(2):
        with pytest.raises(LoginError, match="bastion host rejects user me_0000"):
            testbed.run(instance.name, ["true"])
    assert logins(fabric) == 2 and len(fabric.nodes.logins) == before + 3
    fabric.nodes.expired_key, fabric.nodes.booting = False, 0


def test_slices_left_by_a_crash_are_released_although_the_bastion_host_refuses_the_key(fabric, collection):
    fabric.testbed("first").allocate(SITE, ResourceRequest(1))
    fabric.nodes.expired_key = True
    done = collection("--release-all")
    assert done.status == 0 and not fabric.slices
    assert "still allocated: acapella-first-STAR" in done.out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("-t ecdsa -N secret", "slice_key: the slice key has a passphrase"),
        ("-t ed25519 -N ''", "not an RSA or ECDSA key"),
        (None, r"slice_key\.pub: not the public key of "),
    ],
)
def test_unusable_slice_key_is_an_error_before_a_slice_is_created(fabric, options, why):
    key = fabric.directory / "slice_key"
    if options is None:
        ECDSAKey.generate().write_private_key_file(str(key))
    else:
        key.unlink()
        subprocess.run(["ssh-keygen", "-q", *shlex.split(options), "-f", key], check=True)
    with pytest.raises(LoginError, match=why):
        fabric.testbed().allocate(SITE, ResourceRequest(1))
    assert not fabric.orchestrator.slices


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("ours_22", "FABRIC's client knows no user of image 'ours_22'"),
        ("default_freebsd_14_zfs", "system of image 'default_freebsd_14_zfs' is not supported"),
    ],
)
def test_unsupported_image_is_an_error_before_a_slice_is_created(fabric, image, why):
    with pytest.raises(UserError, match=why):
        fabric.testbed(image=image).allocate(SITE, ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_bastion_hosts_with_one_name_may_have_different_keys(fabric, testbed, instance):
    """Their addresses distinguish them; one address keeps its key."""
    first, other = fabric.nodes.bastion_key, fabric.nodes.new_key()
    fabric.nodes.bastion_key, fabric.nodes.bastion_address = other, "192.0.2.2"
    fabric.nodes.lose_connections()
    assert testbed.run(instance.name, ["true"]).status == 0
    fabric.nodes.bastion_key = first
    fabric.nodes.lose_connections()
    with pytest.raises(LoginError, match="bastion host: SSH host key changed"):
        testbed.run(instance.name, ["true"])
    fabric.nodes.bastion_key = other
