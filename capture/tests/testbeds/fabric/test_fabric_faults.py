"""Faults of FABRIC: spurious errors, expired tokens, nodes that never start, lost connections."""

import hashlib
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_testing.fabric.loopback import SITE, Loopback, check_release, interrupt_creation
from acapella_testing.runs.in_process import call_before
from acapella_testing.waiting import in_background, wait_until

from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import InsufficientResources, NotReleased, ResourceRequest
from acapella_capture.testbeds.fabric import credentials
from acapella_capture.testbeds.fabric.host_keys import HostKeyChangedError, HostKeys
from acapella_capture.testbeds.fabric.testbed import FabricTestbed
from acapella_core.errors import UserError

CREATE = "/slices/creates"
HOUR_NS = 3600 * 10**9
ONE_INSTANCE = ResourceRequest(1)
CAPTURE = parse_settings({"testbed": "fabric"}).capture


@pytest.fixture
def token(fabric) -> str:
    """Give the user a token that can be refreshed once; return it."""
    return fabric.give_token(refresh_token="refresh-1")


def test_error_on_create_does_not_create_a_second_slice(fabric):
    """The client sends a POST four times; the first one creates the slice although the reply is 500."""
    with fabric.faulty(create_status=[500] * 4), fabric.allocated() as (testbed, instance):
        assert fabric.orchestrator.posts(CREATE) > 1
        assert fabric.slices == ["acapella-c-STAR"]
        assert testbed.run(instance.name, ["true"]).status == 0
    assert len(fabric.orchestrator.slices) == 1 and not fabric.slices
    assert testbed.leftovers() == () == testbed.instances(SITE)


def test_slice_whose_creation_is_interrupted_is_named_and_released(fabric, testbed, monkeypatch):
    """Trials create slices in the main thread, which Ctrl-C interrupts, and FABRIC may list a new slice late."""
    interrupt_creation(fabric, testbed.session, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        testbed.allocate(SITE, ONE_INSTANCE)
    assert testbed.leftovers() == ("acapella-c-STAR",) == tuple(fabric.slices)
    check_release(testbed)
    assert not fabric.slices


def test_failed_slice_request_is_an_error_in_one_line(fabric, testbed):
    with fabric.faulty(create_status=[503] * 4), pytest.raises(UserError, match="rejects the slice request") as raised:
        testbed.allocate(SITE, ONE_INSTANCE)
    assert not isinstance(raised.value, InsufficientResources) and "\n" not in str(raised.value)
    assert not fabric.orchestrator.slices


def test_token_that_expires_during_a_collection_is_refreshed_once(fabric, token):
    with fabric.allocated() as (testbed, instance):
        assert fabric.orchestrator.refreshes == []
        fabric.orchestrator.tokens.discard(token)
        testbed.extend(SITE, time.time_ns() + 30 * HOUR_NS)
        assert testbed.instances(SITE) == (instance,)
        testbed.mirror(instance, instance.receivers[0], "HundredGigE0/0/0/5", "both")
    assert fabric.orchestrator.refreshes == ["refresh-1"]
    assert not fabric.slices
    assert testbed.leftovers() == ()


def test_token_is_refreshed_before_it_expires(fabric, token, testbed, monkeypatch):
    remaining_s = credentials.remaining_s
    monkeypatch.setattr(credentials, "remaining_s", lambda each: 60 if each == token else remaining_s(each))
    testbed.allocate(SITE, ONE_INSTANCE)
    assert testbed.session.token() != token
    assert fabric.orchestrator.refreshes == ["refresh-1"]


def test_concurrent_processes_refresh_a_token_once(fabric):
    """A refresh token is valid once: a second refresh with the old one would fail."""
    fabric.give_token(600, refresh_token="refresh-1")
    testbeds = [fabric.testbed(f"c{number}") for number in range(4)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(FabricTestbed.prepare, testbeds))
    assert len({testbed.session.token() for testbed in testbeds}) == 1
    assert fabric.orchestrator.refreshes == ["refresh-1"]
    assert fabric.tokens.stat().st_mode & 0o777 == 0o600


def test_concurrent_sites_refresh_an_expired_token_once(fabric, token):
    """The second site learns that its token has expired after the first one has refreshed it."""
    testbed = fabric.testbed()
    testbed.prepare()
    fabric.orchestrator.tokens.discard(token)
    rejected, refreshed = threading.Event(), threading.Event()

    def slow(manager):
        try:
            return manager.list_slices(return_fmt="dto")
        except Exception:
            rejected.set()
            assert refreshed.wait(300)
            raise

    with ThreadPoolExecutor() as threads:
        second = threads.submit(testbed.session.call_manager, "second", slow)
        assert rejected.wait(300)
        assert testbed.session.call_manager("first", lambda manager: manager.list_slices(return_fmt="dto")) == []
        refreshed.set()
    assert second.result() == [] and fabric.orchestrator.refreshes == ["refresh-1"]


def test_error_of_an_expired_token_names_the_portal(fabric):
    fabric.give_token(-10)
    with pytest.raises(UserError, match=r"expired.*cm\.fabric-testbed\.net") as raised:
        fabric.testbed().prepare()
    assert "\n" not in str(raised.value)


def test_logs_and_messages_contain_no_secret(fabric, token, caplog):
    caplog.set_level("DEBUG")
    with fabric.allocated() as (testbed, _):
        fabric.orchestrator.tokens.clear()
        fabric.orchestrator.refreshes.append("used up")
        with pytest.raises(UserError) as raised:
            testbed.extend(SITE, time.time_ns() + 30 * HOUR_NS)
        fabric.orchestrator.tokens.add(token)
        testbed.session._refused = None  # so that the slice can be deleted
    assert len(caplog.records) > 20
    texts = (caplog.text, str(raised.value), repr(testbed.session.credentials))
    assert not [text for text in texts if token in text or "refresh-1" in text]
    assert credentials.redact(f"config: {{'id_token': '{token}'}}") == "config: {'id_token': '(token)'}"


def test_refused_allocation_leaves_no_slice(fabric, testbed):
    with fabric.faulty(refuse=True), pytest.raises(InsufficientResources, match="Insufficient resources"):
        testbed.allocate(SITE, ONE_INSTANCE)
    assert [each.state for each in fabric.orchestrator.slices.values()] == ["Dead"]  # its hosts are free again
    assert len(testbed.allocate(SITE, ONE_INSTANCE)) == 1


def test_other_slice_failures_are_not_insufficient_resources(fabric, testbed):
    fault = fabric.faulty(refuse=True, notice="playbook failed")
    with fault, pytest.raises(UserError, match="StableError: playbook failed") as raised:
        testbed.allocate(SITE, ONE_INSTANCE)
    assert not isinstance(raised.value, InsufficientResources) and not fabric.slices


@pytest.mark.soak
def test_added_instances_join_the_slice_or_leave_it_unchanged(fabric, testbed, instance):
    instances = testbed.allocate(SITE, ResourceRequest(2))
    assert instances[0] == instance and len({each.name for each in instances}) == 2
    with fabric.faulty(modify_fails=True), pytest.raises(InsufficientResources):
        testbed.allocate(SITE, ResourceRequest(3))
    assert testbed.instances(SITE) == instances == testbed.allocate(SITE, ResourceRequest(2))
    assert len(testbed.allocate(SITE, ResourceRequest(3))) == 3
    assert len(fabric.orchestrator.slices) == 1


def test_slice_that_times_out_is_deleted_as_soon_as_it_is_stable(fabric):
    """FABRIC refuses to delete a slice that is Configuring."""
    fabric.orchestrator.faults.queries = 10
    with fabric.testbed(wait_timeout_s=0.001) as testbed, pytest.raises(UserError, match=r"Configuring after 0\.001 s"):
        testbed.allocate(SITE, ONE_INSTANCE)
    assert not fabric.slices


def test_slice_that_is_never_stable_is_named(fabric):
    testbed = fabric.testbed(wait_timeout_s=0.3, release_timeout_s=0.3)
    error = r"still allocated: acapella-c-STAR \(.*the slice is Configuring"
    with fabric.faulty(stuck=True), pytest.raises(NotReleased, match=error) as raised:
        testbed.allocate(SITE, ONE_INSTANCE)
    assert raised.value.names == ("acapella-c-STAR",)
    assert "Configuring after 0.3 s" in str(raised.value), "the reason of the failure is lost"
    fabric.testbed().release()
    assert not fabric.slices
    assert fabric.testbed().leftovers() == ()


def test_interrupt_during_allocation_only_waits_for_the_release(fabric):
    """Otherwise Ctrl-C would wait as long as FABRIC takes for the slice."""
    orchestrator = fabric.orchestrator
    orchestrator.faults.stuck = True
    with fabric.testbed(wait_timeout_s=300) as testbed, ThreadPoolExecutor() as threads:
        allocating = threads.submit(testbed.allocate, SITE, ONE_INSTANCE)
        wait_until(orchestrator.alive)
        testbed.interrupt_waits()
        before = orchestrator.count("GET", "/slices")
        # it no longer waits for the slice to become active
        wait_until(lambda: orchestrator.count("GET", "/slices") >= before + 3)
        orchestrator.faults.stuck = False
        with pytest.raises(UserError, match=r"^testbed fabric: the slice is Configuring$"):
            allocating.result()
        assert not fabric.slices


def test_node_without_ssh_is_released_and_client_messages_are_not_printed(fabric, testbed, capfd, monkeypatch):
    """Without any handler of log messages, Python prints paramiko's tracebacks."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    fabric.nodes.booting = 1000
    testbed.settings = replace(testbed.settings, wait_timeout_s=0.3)  # timeout for SSH only
    with pytest.raises(UserError, match="not reachable by SSH"):
        testbed.allocate(SITE, ONE_INSTANCE)
    assert not fabric.slices and testbed.instances(SITE) == ()
    assert capfd.readouterr().err == ""


def test_lost_connection_during_a_sample_loses_no_frame(fabric, testbed, instance, tmp_path):
    capture = Tcpdump(testbed, instance.name, instance.receivers[0], CAPTURE, "s.pcap")
    capture.start()
    file = fabric.nodes.home(instance.name) / "acapella-c" / "s.pcap"
    wait_until(lambda: file.stat().st_size > 2000)
    fabric.nodes.lose_connections()
    before = file.stat().st_size
    wait_until(lambda: file.stat().st_size > before)
    counts = capture.stop()
    testbed.fetch(instance.name, "s.pcap", tmp_path / "raw" / "s.pcap")
    assert counts.captured > 10
    assert (tmp_path / "raw" / "s.pcap").stat().st_size == 24 + counts.captured * (16 + 64)


def test_command_runs_once_if_its_connection_is_lost(fabric, testbed, instance):
    directory = fabric.nodes.home(instance.name) / "acapella-c"

    def lose() -> None:
        wait_until((directory / "ran").exists)
        fabric.nodes.lose_connections()
        (directory / "lost").touch()

    requested = len(fabric.nodes.commands)
    script = "echo once >> ran; until [ -e lost ]; do sleep 0.02; done; cat ran; printf '\\377'; exit 5"
    with in_background(lose):
        done = testbed.run(instance.name, ["sh", "-c", script])
    assert (done.status, done.stdout) == (5, "once\n\ufffd")
    assert len(fabric.nodes.commands) - requested > 1


def test_node_unreachable_by_ssh_is_an_error_in_one_line(fabric, testbed, instance):
    fabric.nodes.stop_answering()
    with pytest.raises(UserError, match="no reply after 3 attempts") as raised:
        testbed.run(instance.name, ["true"])
    assert "\n" not in str(raised.value)
    fabric.nodes.refusing = False


def test_interrupted_transfer_resumes(fabric, testbed, instance, tmp_path):
    target = tmp_path / "raw" / "a.pcap"
    script = "head -c 3500000 /dev/urandom | tee a.pcap | sha256sum"
    digest = testbed.run(instance.name, ["sh", "-c", script]).stdout.split()[0]
    fabric.nodes.cut_downloads_after = 2_500_000
    with pytest.raises(UserError, match=r"part 3 of a\.pcap could not be transferred"):
        testbed.fetch(instance.name, "a.pcap", target)
    assert not target.exists()
    fabric.nodes.cut_downloads_after, fabric.nodes.downloaded = None, 0
    testbed.fetch(instance.name, "a.pcap", target)
    assert fabric.nodes.downloaded < 2_000_000
    assert hashlib.sha256(target.read_bytes()).hexdigest() == digest
    assert [path.name for path in target.parent.iterdir()] == ["a.pcap"]


def test_reading_stops_if_the_node_extends_a_part(fabric, testbed, instance, tmp_path, monkeypatch):
    extra = 20_000_000
    testbed.run(instance.name, ["sh", "-c", "head -c 1500000 /dev/urandom > a.pcap"])
    call = testbed._remote.call

    def lengthen(node: str, command: str, **arguments: object) -> dict:
        reply = call(node, command, **arguments)
        if command == "extract_part":
            with Path(reply["path"]).open("ab") as part:
                part.truncate(part.tell() + extra)
        return reply

    monkeypatch.setattr(testbed._remote, "call", lengthen)
    testbed.fetch(instance.name, "a.pcap", tmp_path / "a.pcap")
    assert (tmp_path / "a.pcap").stat().st_size == 1_500_000 <= fabric.nodes.downloaded < extra


def test_slice_left_by_a_crash_is_found_reused_and_deleted(fabric):
    (instance,) = fabric.testbed("a").allocate(SITE, ONE_INSTANCE)
    with fabric.allocated(campaign="a-b") as (other, _):
        assert other.leftovers() == ()
        testbed = fabric.testbed("a")
        assert testbed.leftovers() == ("acapella-a-STAR",)
        posts = fabric.orchestrator.posts(CREATE)
        assert testbed.allocate(SITE, ONE_INSTANCE) == (instance,)
        assert fabric.orchestrator.posts(CREATE) == posts and testbed.leftovers() == ()
        testbed.release()
        assert fabric.slices == ["acapella-a-b-STAR"]
    fabric.testbed("a").release()  # no slice: no error
    fabric.testbed("a").slices.delete("no such id")


@pytest.mark.parametrize("name", ["acapella-c-2", "acapella-c-slice"])
def test_user_slice_with_a_similar_name_is_kept(fabric, name):
    fabric.testbed("other").allocate(SITE, ONE_INSTANCE)
    (stored,) = fabric.orchestrator.alive()
    stored.name = name
    with fabric.allocated() as (testbed, _):
        assert sorted(fabric.slices) == sorted([f"acapella-c-{SITE}", name])
    assert fabric.slices == [name] and testbed.leftovers() == ()
    assert testbed.instances(SITE) == ()


def test_other_slices_are_deleted_if_one_cannot_be(fabric):
    testbed = fabric.testbed(release_timeout_s=0.3)
    for site in (SITE, "UTAH"):
        testbed.allocate(site, ONE_INSTANCE)
    with fabric.faulty(kept=f"acapella-c-{SITE}"), pytest.raises(UserError, match="cannot delete the slice"):
        testbed.release()
    assert fabric.slices == [f"acapella-c-{SITE}"] == list(fabric.testbed().leftovers())
    check_release(testbed)
    assert not fabric.slices


@pytest.mark.usefixtures("instance")
def test_slice_may_be_deleted_by_another_thread_at_the_same_time(fabric, testbed, monkeypatch):
    slices, (record,) = testbed.slices, testbed.slices.list_slices()

    def delete(slice_id: str) -> None:
        monkeypatch.undo()
        slices.delete_all([slice_id])

    call_before(monkeypatch, slices, "_try_delete", delete)
    slices.delete_all([record.slice_id])
    assert not fabric.slices


def test_lease_is_extended_only_if_it_ends_earlier(fabric):
    with fabric.allocated(lease_h=2) as (testbed, _):
        testbed.extend(SITE, time.time_ns() + HOUR_NS)
        assert fabric.orchestrator.renewals == []
        testbed.extend(SITE, time.time_ns() + 5 * HOUR_NS)
        (requested,) = fabric.orchestrator.renewals
        (renewed,) = fabric.orchestrator.alive()
        assert renewed.state == "StableOK", "a renewed slice is Configuring; until then, FABRIC refuses other changes"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000", requested)
        testbed.extend(SITE, time.time_ns() + 5 * HOUR_NS - 10**9)
        assert len(fabric.orchestrator.renewals) == 1


def refused(testbed, fabric: Loopback, action, host: str = "node STAR-listener1") -> str:
    """Return the message of an action rejected because of a host key; nothing was sent to the node."""
    commands, began = len(fabric.nodes.commands), time.monotonic()
    with pytest.raises(HostKeyChangedError, match=rf"^{host}: SSH host key changed to ") as raised:
        action(testbed)
    assert len(fabric.nodes.commands) == commands and "\n" not in str(raised.value)
    assert time.monotonic() - began < fabric.settings().wait_timeout_s
    return str(raised.value)


def test_changed_host_key_within_a_slice_is_rejected(fabric, tmp_path):
    """This holds in the same collection, in a later one that reuses the slice, and for uploads and downloads."""
    keys = fabric.nodes.key, fabric.nodes.new_key()
    first = fabric.testbed()
    (instance,) = first.allocate(SITE, ONE_INSTANCE)
    assert first.run(instance.name, ["sh", "-c", "echo some > file"], timeout_s=60).status == 0
    fabric.nodes.key = keys[1]
    fabric.nodes.lose_connections()
    message = refused(first, fabric, lambda testbed: testbed.run(instance.name, ["true"]))
    assert keys[1].get_base64() in message and str(tmp_path / "acapella_known_hosts") in message
    refused(first, fabric, lambda testbed: testbed.put(instance.name, tmp_path / "slice_key.pub", "sent"))
    refused(first, fabric, lambda testbed: testbed.fetch(instance.name, "file", tmp_path / "fetched"))
    refused(fabric.testbed(), fabric, lambda testbed: testbed.allocate(SITE, ONE_INSTANCE))
    assert (tmp_path / "acapella_known_hosts").stat().st_mode & 0o777 == 0o600
    fabric.nodes.key = keys[0]
    assert first.run(instance.name, ["true"]).status == 0
    fabric.nodes.bastion_key = keys[1]
    fabric.nodes.lose_connections()
    message = refused(first, fabric, lambda testbed: testbed.run(instance.name, ["true"]), "bastion host")
    assert keys[1].get_base64() in message
    known = (tmp_path / "acapella_known_hosts").read_text()
    fabric.nodes.bastion_key = keys[0]
    (tmp_path / "acapella_known_hosts").write_text(re.sub("(?m)^.*/@bastion/.*\n", "", known))
    assert first.run(instance.name, ["true"]).status == 0, "a removed key is stored again"
    first.release()


def test_damaged_or_public_host_key_file_is_rejected(tmp_path):
    file, key = tmp_path / "known", pytest.importorskip("paramiko").ECDSAKey.generate()
    keys = HostKeys(file)
    keys.check("slice/node", key)
    content = file.read_text()
    for damaged in (content[:-1], content[:30], content.replace(" ", "  ", 1), content + "slice/other ecdsa\n"):
        file.write_text(damaged)
        with pytest.raises(UserError, match=r"known line \d: not a host key"):
            keys.check("slice/node", pytest.importorskip("paramiko").ECDSAKey.generate())
        assert file.read_text() == damaged
    file.write_text(content)
    file.chmod(0o620)
    with pytest.raises(UserError, match="accessible to other users"):
        keys.check("slice/node", key)


@pytest.mark.usefixtures("instance")
def test_new_slice_may_have_different_host_keys(fabric, testbed):
    testbed.release()
    fabric.nodes.key = fabric.nodes.new_key()
    (instance,) = testbed.allocate(SITE, ONE_INSTANCE)
    assert testbed.run(instance.name, ["true"]).status == 0
