"""acapella doctor: its report on this machine, and on one without the optional programs."""

import itertools
import json
import shutil

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable

from acapella.cli import doctor
from acapella.cli.main import main
from acapella_core import _native


def test_json_option_prints_one_document_and_exits_with_0(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    pieces = {finding["piece"] for finding in findings}
    assert {"tshark", "tcpdump", "iperf3", "chromium", "sbatch", "ovs-vsctl", "acapella-dpdk-capture", "p4c"} <= pieces
    assert {"softflowd", "nfpcapd", "zeek", "RDMA device"} <= pieces
    assert {"cores", "memory", "disk", "root", "user namespaces"} <= pieces
    assert {"tc htb", "tc tbf", "tc ingress", "tc u32 + mirred", "tc matchall", "tc netem"} <= pieces
    assert [finding for finding in findings if not (finding["enables"] and finding["seen"])] == []
    groups = [name for name, _ in itertools.groupby(finding["group"] for finding in findings)]
    assert len(groups) == len(set(groups))


def test_missing_programs_are_listed_with_their_packages_and_exit_code_0(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "ADMIN", (str(tmp_path),))
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "apt-get install tshark" in printed
    assert "engines hybrid and tshark" in printed
    assert "NO   tcpdump" in printed
    assert "NO   user namespaces" in printed


@pytest.mark.parametrize(("found", "hint"), [(None, "make setup-fabric"), ("module", None)])
def test_packages_that_are_not_installed_have_a_hint(found, hint, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)
    assert {finding.piece: finding.install for finding in doctor.python_packages()}["fablib"] == hint


def test_kernel_links_name_the_paths_of_testbed_local():
    links = {piece: enables for piece, _, enables in doctor.KERNEL_LINKS}
    # The paths are those of local.traffic[].path of the config.
    assert links["vlan"] == "traffic on path vlan of testbed local"
    assert links["vxlan"] == "traffic on path vxlan of testbed local"


def test_version_is_parsed_from_the_output_of_a_program(tmp_path, monkeypatch):
    executable(tmp_path / "tshark", "#!/bin/sh\necho 'Running as root.' >&2\necho 'TShark 9.8.7'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = doctor.program(next(each for each in doctor.PROGRAMS if each.name == "tshark"))
    assert (found.available, found.state, found.install) == (True, "TShark 9.8.7", None)


@pytest.mark.parametrize(
    ("script", "version", "seen"),
    [
        (
            "case $* in *--format*) echo '12 nodes' ;; *) echo 'slurm-wlm 22.05.8' ;; esac",
            "slurm-wlm 22.05.8",
            "12 nodes",
        ),
        (
            "for n in 1 2; do echo 'sinfo: error: no configuration at 10.1' >&2; done; exit 1",
            "version not printed",
            "sinfo finds no cluster",
        ),
    ],
)
def test_slurm_is_available_only_if_sinfo_finds_a_cluster(script, version, seen, tmp_path, monkeypatch):
    for name in ("sbatch", "sinfo"):
        executable(tmp_path / name, f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = doctor.cluster()
    assert found.state == seen
    assert found.available == (found.install is None) == (seen == "12 nodes")
    assert doctor.program(next(each for each in doctor.PROGRAMS if each.name == "sbatch")).state == version


def test_features_are_tested_by_using_them():
    if doctor.isolated(["true"]) is not None or shutil.which("ip", path=":".join(doctor.ADMIN)) is None:
        pytest.skip("no user namespaces, or no ip, on this machine")
    assert doctor.feature("loopback", ("ip link set lo up",), "nothing").available
    refused = doctor.feature("nonsense", ("ip link add n0 type nonsense",), "nothing")
    assert not refused.available
    assert refused.state
    assert refused.state != "tried, works"


def test_packages_of_programs_are_in_the_list_of_debian_packages(tmp_path):
    listed = (doctor.Path(__file__).parents[2] / "setup" / "debian-packages.txt").read_text()
    names = {line.split()[0] for line in listed.splitlines() if line and not line.startswith("#")}
    assert {entry.package for entry in doctor.PROGRAMS if not entry.package.startswith("none")} <= names


def test_rdma_devices_are_listed_with_the_state_of_their_ports(tmp_path):
    assert doctor.rdma(tmp_path / "none").install == "an RDMA-capable NIC"
    write_file(tmp_path / "mlx5_0" / "ports" / "1" / "state", "4: ACTIVE\n")
    found = doctor.rdma(tmp_path)
    assert (found.available, found.state, found.install) == (True, "mlx5_0 4: ACTIVE", None)


def test_libraries_missing_from_the_core_are_reported_with_their_packages(monkeypatch):
    built = _native.features()
    assert set(built) == {feature for feature, _, _ in doctor.CORE_FEATURES}
    monkeypatch.setattr(_native, "features", lambda: built | {"gzip": True, "zstd": False})
    found = {each.piece: (each.available, each.state, each.install) for each in doctor.core_features()}
    assert found["gzip"][::2] == (True, None)
    assert found["zstd"] == (False, "not built in", "apt-get install libzstd-dev, then make setup")
