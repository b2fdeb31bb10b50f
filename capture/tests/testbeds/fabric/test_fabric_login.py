"""Logins to FABRIC: what is checked before anything is requested, and what happens if a login is refused."""

import errno
import re
import subprocess

import pytest

pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")

import paramiko
from acapella_testing.fabric.collection_runs import ONE, collected
from acapella_testing.fabric.loopback import Loopback
from acapella_testing.fabric.nodes import BASTION
from fabrictestbed_extensions.fablib.fablib import FablibManager

from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.login import LoginError
from acapella_core.errors import UserError

SITE = "STAR"


def logins(fabric: Loopback) -> int:
    """Return the number of logins to the bastion host."""
    return fabric.nodes.logins.count(BASTION)


def test_nothing_is_created_if_the_bastion_host_refuses_the_key(fabric, capsys):
    """The login is tried once for all sites: bastion hosts block machines with repeated failed logins."""
    fabric.nodes.expired_key = True
    status, _ = collected(fabric)
    printed = capsys.readouterr()
    assert status == 2 and "bastion host rejects user me_0000" in printed.err and "(My SSH Keys)" in printed.err
    assert logins(fabric) == 1 and not fabric.orchestrator.slices


def test_plan_names_a_refused_login(fabric, capsys):
    status, _ = collected(fabric, "--dry-run")
    assert status == 0 and "missing" not in capsys.readouterr().out and logins(fabric) == 1
    fabric.nodes.expired_key = True
    status, _ = collected(fabric, "--dry-run")
    printed = capsys.readouterr().out
    assert status == 0 and re.search(
        r"(?m)^missing: \S+bastion_key: FABRIC's bastion host rejects user me_0000", printed
    )
    assert logins(fabric) == 2


def test_nothing_is_created_if_the_bastion_host_is_not_reachable(fabric):
    fabric.nodes.refusing = True
    with fabric.testbed() as testbed:
        with pytest.raises(UserError, match=r"no SSH connection to FABRIC's bastion host bastion\.invalid, port 22"):
            testbed.allocate(SITE, ResourceRequest(1))
        fabric.nodes.refusing = False
        with pytest.raises(UserError, match="no SSH connection"):  # the other sites do not wait, too
            testbed.allocate("UTAH", ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_login_that_loses_its_connection_is_repeated(fabric, monkeypatch):
    """Paramiko raises the same exception as for a refused key."""
    texts = ("Authentication failed: transport shut down or saw EOF", "Authentication timeout.")
    faults, login = [paramiko.AuthenticationException(text) for text in texts], FablibManager.probe_bastion_host

    def probe(manager: FablibManager) -> bool:
        if faults:
            raise faults.pop()
        return login(manager)

    monkeypatch.setattr(FablibManager, "probe_bastion_host", probe)
    with fabric.testbed() as testbed:
        testbed.allocate(SITE, ResourceRequest(1))
    assert logins(fabric) == 1


def test_connection_that_is_lost_during_the_plan_does_not_fail_the_sites(fabric, capsys):
    fabric.nodes.drop_every = 100  # of the logins to the bastion host, only the first one, for the plan
    status, campaign = collected(fabric, collect=ONE)
    printed = capsys.readouterr()
    assert status == 0, printed.out + printed.err
    assert "no SSH connection to FABRIC's bastion host" in printed.out + printed.err
    assert logins(fabric) == 2 and list((campaign / "raw").glob("*.json"))


def test_timeout_of_the_operating_system_is_reported_as_such(fabric, monkeypatch):
    """It raises the same exception as a login that does not end."""

    def probe(_manager: FablibManager) -> bool:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(FablibManager, "probe_bastion_host", probe)
    with pytest.raises(UserError, match=r"port 22: \[Errno 110\] Connection timed out"):
        fabric.testbed().allocate(SITE, ResourceRequest(1))


def test_key_that_expires_during_a_collection_is_not_retried(fabric):
    with fabric.testbed() as testbed:
        (instance,) = testbed.allocate(SITE, ResourceRequest(1))
        fabric.nodes.expired_key, fabric.nodes.booting = True, 1000
        fabric.nodes.lose_connections()
        before = len(fabric.nodes.logins)
        for _ in range(2):
            with pytest.raises(LoginError, match="bastion host rejects user me_0000"):
                testbed.run(instance.name, ["true"])
        assert logins(fabric) == 2 and len(fabric.nodes.logins) == before + 3
        fabric.nodes.expired_key, fabric.nodes.booting = False, 0


def test_login_waits_until_a_node_has_the_key(fabric, capsys):
    fabric.nodes.booting = 5
    status, _ = collected(fabric, collect=ONE)
    assert status == 0, capsys.readouterr()
    assert fabric.nodes.booting == 0


def test_campaign_is_released_although_the_bastion_host_refuses_the_key(fabric):
    fabric.testbed("first").allocate(SITE, ResourceRequest(1))
    fabric.nodes.expired_key = True
    status, _ = collected(fabric, "--release-all")
    assert status == 0 and not fabric.orchestrator.alive()


def write_key(fabric: Loopback, kind: type[paramiko.PKey], *, password: str | None = None) -> paramiko.PKey:
    key = kind.generate(2048) if kind is paramiko.RSAKey else kind.generate()
    key.write_private_key_file(str(fabric.directory / "slice_key"), password=password)
    return key


def test_slice_key_with_a_passphrase_is_an_error_before_any_request(fabric):
    key = write_key(fabric, paramiko.ECDSAKey, password="some")
    (fabric.directory / "slice_key.pub").write_text(f"{key.get_name()} {key.get_base64()}\n")
    with pytest.raises(LoginError, match="slice_key: the slice key has a passphrase"):
        fabric.testbed().allocate(SITE, ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_slice_key_of_a_different_pair_is_an_error_before_any_request(fabric):
    write_key(fabric, paramiko.ECDSAKey)
    with pytest.raises(LoginError, match=r"slice_key\.pub: not the public key of "):
        fabric.testbed().allocate(SITE, ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_slice_key_of_a_kind_that_the_client_cannot_read_is_an_error(fabric, tmp_path):
    (fabric.directory / "slice_key").unlink()
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(fabric.directory / "slice_key")]
    (fabric.directory / "slice_key.pub").unlink()
    subprocess.run(argv, check=True)
    with pytest.raises(LoginError, match="not an RSA or ECDSA key"):
        fabric.testbed().allocate(SITE, ResourceRequest(1))


def test_image_without_a_known_user_is_an_error_before_any_request(fabric):
    with pytest.raises(UserError, match="FABRIC's client knows no user of image 'ours_22'"):
        fabric.testbed(image="ours_22").allocate(SITE, ResourceRequest(1))
    with pytest.raises(UserError, match="system of image 'default_freebsd_14_zfs' is not supported"):
        fabric.testbed(image="default_freebsd_14_zfs").allocate(SITE, ResourceRequest(1))
    assert not fabric.orchestrator.slices


def test_bastion_hosts_with_one_name_may_have_different_keys(fabric):
    """Their addresses distinguish them; one address keeps its key."""
    with fabric.testbed() as testbed:
        (instance,) = testbed.allocate(SITE, ResourceRequest(1))
        first, other = fabric.nodes.bastion_key, fabric.nodes.new_key()
        fabric.nodes.bastion_key, fabric.nodes.bastion_address = other, "192.0.2.2"
        fabric.nodes.lose_connections()
        assert testbed.run(instance.name, ["true"]).status == 0
        fabric.nodes.bastion_key = first
        fabric.nodes.lose_connections()
        with pytest.raises(LoginError, match="bastion host: SSH host key changed"):
            testbed.run(instance.name, ["true"])
        fabric.nodes.bastion_key = other
