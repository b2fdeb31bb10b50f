"""Collections on a FABRIC on loopback: the coordinator, FABRIC's own client, nodes that write captures."""

import os
import signal
from pathlib import Path

import pytest
from acapella_testing.fabric.collection_runs import ONE, OTHERS, PORTS
from acapella_testing.requirements import require_built
from acapella_testing.runs.in_process import call_before
from acapella_testing.waiting import in_background, interrupt_when, wait_until

from acapella_capture.control.preprocess import NOTE, PROGRAM
from acapella_capture.programs.tcpdump import Tcpdump
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric.agent import MARKER
from acapella_capture.testbeds.fabric.testbed import FabricTestbed
from acapella_core.anonymize import make_key
from acapella_core.errors import UserError


def test_sites_are_sampled_in_parallel_and_released(fabric, collection):
    """The NICs have no large receive offload (lro), and their receive ring has at most 2048 descriptors."""
    done = collection(collect={"ports": {"STAR": PORTS[1:], "UTAH": OTHERS[1:]}})
    assert done.status == 0, done.err
    assert "project permissions: Net.PortMirroring" in done.out
    assert "STAR: success" in done.out and "UTAH: success" in done.out
    found = [(each["site"], each["port"]) for each in done.manifests()]
    assert sorted(found) == sorted([*(("STAR", port) for port in PORTS[1:]), ("UTAH", OTHERS[1])])
    for each in done.manifests():
        assert (each["testbed"], each["instance"]) == ("fabric", f"{each['site']}-listener1")
        assert each["frames_captured"] > 0 and each["mirror"]["offered_frames"] is None
        assert (done.raw / each["file"]).stat().st_size == each["bytes"]
        assert not [note for note in each["notes"] if "frame" in note and "bytes" in note]
        assert each["nic"] == {"mtu": 1500, "rx_ring": 2048, "offloads": {"gro": False, "lro": None, "rxvlan": False}}
        assert not list(fabric.nodes.home(each["instance"]).glob("*/*.pcap*"))  # deleted on the node after the transfer
    assert len(fabric.orchestrator.slices) == 2 and not fabric.orchestrator.alive()


@pytest.mark.soak
def test_new_slice_contains_its_first_mirrors(fabric, collection):
    """Each modification of a slice takes a minute and may fail. Fixed ports need no counters, samples no large disk."""
    fabric.orchestrator.faults.metrics_status = 403
    fabric.orchestrator.tags = ("Net.PortMirroring", "Component.SmartNIC")
    done = collection(collect={"sites": ["UTAH"], "ports": {"UTAH": OTHERS}, "gather": "end"})
    assert done.status == 0, done.err
    assert fabric.orchestrator.posts("/slices/creates") == 1 and fabric.orchestrator.modifications() == 0
    assert sorted(each["port"] for each in done.manifests()) == sorted(OTHERS)
    assert len({each["receiver"] for each in done.manifests()}) == 2


@pytest.mark.soak
def test_first_mirrors_that_fail_and_frames_longer_than_the_mtu_are_noted(fabric, collection):
    """The slice is then created without mirrors."""
    (fabric.nodes.home("UTAH-listener1") / "wire_bytes").write_text("64000")
    with fabric.faulty(first_mirrors_fail=True, notice="port is mirrored already"):
        done = collection(collect=ONE)
    assert done.status == 0 and "UTAH: success" in done.out
    assert fabric.orchestrator.posts("/slices/creates") == 2 and fabric.orchestrator.modifications() == 1
    (manifest,) = done.manifests()
    assert [note for note in manifest["notes"] if "first mirrors" in note and "port is mirrored already" in note]
    assert not fabric.slices
    warning = f"{manifest['sample']}: the longest frame has 64000 bytes, more than an MTU of 1500 allows"
    assert [note for note in manifest["notes"] if note.startswith(warning)] and f"note: {warning}" in done.out


def test_captures_are_anonymized_on_nodes_by_an_uploaded_program(fabric, collection, tmp_path, monkeypatch):
    require_built(PROGRAM, "build/anonymize.log has the reason")
    make_key(key := tmp_path / "key")
    (tmp_path / "manuf").write_text("00:00:01\tXerox\n")  # instead of tshark's, which is long
    monkeypatch.setattr("acapella_capture.control.preprocess.vendor_lists", lambda: [tmp_path / "manuf"])
    done = collection(collect=ONE, preprocess={"anonymize": True, "key_file": str(key)})
    (manifest,) = done.manifests()
    assert done.status == 0 and NOTE in manifest["notes"]
    data = (done.raw / manifest["file"]).read_bytes()
    assert len(data) == 24 + manifest["frames_captured"] * (16 + 14 + 20 + 8)
    assert bytes((203, 0, 113, 77)) not in data
    home = fabric.nodes.home("UTAH-listener1")
    node_files = {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert {PROGRAM, "manuf"} <= node_files.keys()
    assert not [name for name, found in node_files.items() if key.read_bytes() in found]


def test_collection_fails_early_if_a_file_to_upload_is_missing(fabric, tmp_path, collection):
    done = collection(preprocess={"anonymize": True, "key_file": str(tmp_path / "none")})
    assert done.status == 2 and "cannot read the key" in done.err
    assert done.error.startswith("acapella: error: ")
    assert not fabric.orchestrator.slices


def test_dry_run_requests_nothing(fabric, collection):
    plan = collection("--dry-run")
    assert plan.status == 0 and not plan.campaign.exists()
    assert f"ports: {PORTS[0]} (downlink)" in plan.out
    assert not any(method != "GET" for method, path in fabric.orchestrator.requests if path.startswith("/slices"))


def test_plan_sizes_samples_to_a_smaller_disk(fabric, collection):
    """Disks have at most 10 GB, of which the system needs 5 GB. Two captures at 8.5 Gbit/s fill the rest in 10.7 s."""
    fabric.orchestrator.tags = ("Net.PortMirroring", "Component.SmartNIC")
    plan = collection("--dry-run", collect=ONE, sample_s=20)
    assert plan.status == 0
    assert "without VM.NoLimitDisk: nodes with 10 GB of disk (100 GB in the config), samples of 10.7 s (20 " in plan.out
    assert "needs 1 listening node, each 2 cores, 8 GB of memory, 10 GB of disk, 1 NIC" in plan.out
    assert "1 cycle of 1 sample of 10.7 s per port" in plan.out
    fabric.orchestrator.tags += ("VM.NoLimitDisk",)
    plan = collection("--dry-run", collect=ONE, sample_s=20)
    assert plan.status == 0 and "1 cycle of 1 sample of 20 s per port" in plan.out and "without VM" not in plan.out


def test_plan_contains_the_expected_overload(fabric, collection):
    """Before anything is allocated: the free NICs of the site are ConnectX-5."""
    fabric.orchestrator.sites["UTAH"][0]["nics"] = {"SmartNIC-ConnectX-5": 1}
    plan = collection("--dry-run", collect=ONE)
    assert plan.status == 0
    assert "expected overload: 1 of 1 port can exceed the 25 Gbit/s that the receiver accepts: up to 200 G" in plan.out
    assert "currently above this limit: none" in plan.out and "8.5 Gbit/s that tcpdump" in plan.out
    assert not fabric.orchestrator.slices


def test_site_without_a_free_nic_fails_with_the_reason(fabric, collection):
    fabric.orchestrator.sites["UTAH"][0]["nics"] = {}
    done = collection(collect=ONE)
    assert done.status != 0 and "dedicated NICs" in done.printed
    assert not fabric.orchestrator.slices


def test_site_in_maintenance_is_skipped_and_named(fabric, collection):
    fabric.orchestrator.states["UTAH"] = "Maint"
    plan = collection("--dry-run")
    assert plan.status == 0 and "UTAH: skipped: FABRIC reports state Maint" in plan.out
    done = collection(collect={"ports": {"STAR": PORTS[:1], "UTAH": OTHERS[:1]}})
    assert done.status == 0, done.err
    assert "UTAH: failed: skipped: FABRIC reports state Maint" in done.out and "STAR: success" in done.out
    assert "UTAH,failed,skipped: FABRIC reports state Maint" in (done.campaign / "outcomes.csv").read_text()


def test_collection_without_an_available_site_is_an_error(fabric, collection):
    fabric.orchestrator.states |= {"UTAH": "Maint", "STAR": "Maint"}
    done = collection()
    assert done.status == 2 and "no site is available (STAR: FABRIC reports state Maint" in done.err
    assert done.error.startswith("acapella: error: ")


def test_ctrl_c_during_a_creation_names_leftovers_and_the_command(fabric, collection):
    with fabric.faulty(stuck=True), interrupt_when(fabric.orchestrator.alive):
        done = collection(collect=ONE, release_timeout_s=0.3)
    assert done.status == 2
    assert done.error.startswith("acapella: error: ")
    assert "still allocated: acapella-first-UTAH (the slice is Configuring)" in done.error
    command = f"acapella collect {done.campaign} --config {fabric.directory / 'config.json'} --release-all"
    assert done.error.endswith(f"; {command}")
    assert collection("--release-all").status == 0 and not fabric.slices


def test_repeated_ctrl_c_does_not_prevent_the_release(fabric, collection):
    orchestrator = fabric.orchestrator
    orchestrator.faults.stuck = True

    def interrupt() -> None:
        wait_until(orchestrator.alive)
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            requests = len(orchestrator.requests)
            wait_until(lambda requests=requests: len(orchestrator.requests) > requests + 5)
        orchestrator.faults.stuck = False

    with in_background(interrupt):
        done = collection(collect=ONE)
    assert done.status == 130 and not fabric.slices, done.printed


def test_ctrl_c_during_the_last_release_names_leftovers(fabric, collection, monkeypatch):
    fabric.orchestrator.faults.kept = "acapella-first-UTAH"

    def interrupt(_testbed: FabricTestbed, site: str | None = None) -> None:
        if site is None:
            raise KeyboardInterrupt

    call_before(monkeypatch, FabricTestbed, "release", interrupt)
    done = collection(collect=ONE, release_timeout_s=0.3)
    assert done.status == 2 and "still allocated: acapella-first-UTAH (interrupted)" in done.error
    assert done.error.startswith("acapella: error: ")
    assert done.error.endswith(" --release-all")


@pytest.mark.soak
def test_samples_are_kept_if_a_slice_cannot_be_deleted(fabric, collection):
    fabric.orchestrator.faults.kept = "acapella-first-UTAH"
    done = collection(collect=ONE, release_timeout_s=0.3)
    assert done.status == 2 and "UTAH: success: not released: " in done.out
    assert done.error.startswith("acapella: error: ")
    assert "still allocated: acapella-first-UTAH (" in done.error
    assert done.error.endswith(" --release-all")
    assert len((done.raw / "samples.tsv").read_text().splitlines()) == 2
    released = collection("--release-all", release_timeout_s=0.3)
    assert released.status == 2 and "still allocated: acapella-first-UTAH (" in released.error
    assert released.error.startswith("acapella: error: ")
    assert released.error.endswith(" --release-all")


@pytest.mark.soak
def test_collection_after_a_crash_reuses_its_slice(fabric, collection):
    """A hub that stops idle containers may have killed the first one; the second one finds its slice by name."""
    crashed = fabric.testbed("first")
    (instance,) = crashed.allocate("UTAH", ResourceRequest(1))
    crashed.mirror(instance, instance.receivers[0], OTHERS[1], "both")
    done = collection(collect=ONE)
    assert done.status == 0 and "UTAH: success" in done.out
    assert fabric.orchestrator.posts("/slices/creates") == 1, "no second slice"
    (manifest,) = done.manifests()
    assert (manifest["port"], manifest["instance"]) == (OTHERS[0], instance.name)
    assert not fabric.slices


def test_capture_of_a_killed_collection_is_ended_and_deleted(fabric, tmp_path):
    killed = fabric.testbed()
    (instance,) = killed.allocate("UTAH", ResourceRequest(1))
    home = fabric.nodes.home(instance.name) / "acapella-c"
    job = killed.start(instance.name, ["tcpdump", "-i", instance.receivers[0]], output="s.pcap")
    wait_until(lambda: (home / "s.pcap").exists() and (home / "s.pcap").stat().st_size > 2000)
    for name in ("f.pcap.zst", "t.pcap.part", "s.columns", "s.pcap.anonymized", "acapella-key", "acapella-digest"):
        (home / name).touch()
    with fabric.allocated("UTAH") as (testbed, reused):
        assert reused == instance
        testbed.prepare_capture(instance, "tcpdump", tmp_path, print)
        assert job.poll() is not None
        assert sorted(path.name for path in home.iterdir()) == [MARKER, "acapella-digest", "jobs"]
        (home / "s.pcap").touch()
        testbed.prepare_capture(instance, "tcpdump", tmp_path, print)
        assert (home / "s.pcap").exists(), "a capture of this collection is deleted"


def test_capture_does_not_contain_frames_of_a_program_that_still_writes(fabric, testbed, instance):
    """A killed collection has left the program."""
    settings = parse_settings({"testbed": "fabric"}).capture
    file = fabric.nodes.home(instance.name) / "acapella-c" / "s.pcap"
    old, new = (Tcpdump(testbed, instance.name, instance.receivers[0], settings, "s.pcap") for _ in range(2))
    old.start()
    wait_until(lambda: file.stat().st_size > 4000)
    new.start()
    counts = new.stop()
    assert old.alive() and file.stat().st_size == 24 + counts.captured * (16 + 64)
    old.kill()


def test_end_of_a_collection_does_not_wait_for_a_long_program(fabric, testbed, instance):
    """Digests and zstd are such programs. The program is ended on its node."""
    home = fabric.nodes.home(instance.name)

    def interrupt() -> None:
        wait_until(lambda: list(home.rglob("started")))
        testbed.interrupt_waits()

    with in_background(interrupt), pytest.raises(UserError, match=rf"node {instance.name}: interrupted"):
        testbed.run(instance.name, ["sh", "-c", "echo $$ > started; exec sleep 3600"], timeout_s=3600)
    (started,) = home.rglob("started")
    wait_until(lambda: not Path("/proc", started.read_text().strip()).exists())
    assert testbed.run(instance.name, ["true"], timeout_s=30).status == 0  # short programs still run
