"""Tests the lists of vendors: those next to tshark, the included one without tshark, and their record in digests."""

import hashlib
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.oracles.core_against_tshark import pcap, vendor_prefixes
from acapella_testing.processes import executable, run
from acapella_testing.requirements import require
from acapella_testing.source_tree import ROOT

from acapella.common import tshark, vendors
from acapella.digest.command import Options, digest
from acapella.snakefile.code import vendors_sha256

LISTING = Path("/usr/share/ieee-data/oui.csv")
# Label 20, a sequence number as control word, 00:1b:21:aa:bb:cc <- 00:1b:21:dd:ee:ff, an unassigned ethertype.
SEQUENCED = bytes.fromhex("00562b0a0b0c00562b01020388470001414000000001001b21aabbcc001b21ddeeff88b5")


@pytest.fixture
def capture(tmp_path) -> Path:
    return write_file(tmp_path / "sequenced.pcap", pcap([(len(SEQUENCED) + 20, SEQUENCED + bytes(20))]))


def deciders(capture: Path, engine: str = "native") -> tuple[list[str], dict]:
    """Return column l4_by of a digest and the metadata."""
    acap, flows = capture.with_suffix(".parquet"), capture.with_suffix(".flows.parquet")
    metadata = digest([str(capture)], str(acap), str(flows), Options(engine))
    return pq.read_table(acap)["l4_by"].to_pylist(), metadata


def install(directory: Path, version: str, monkeypatch) -> Path:
    """Put a tshark on the PATH that only prints its version; return its data directory."""
    data = new_directory(directory / "share" / "wireshark")
    text = f"#!/bin/sh\necho 'TShark (Wireshark) {version} (made for a test).'\n"
    program = executable(directory / "bin" / "tshark", text)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return data


@pytest.mark.parametrize("engine", ["native", "hybrid", "tshark"])
def test_digest_metadata_names_the_vendor_lists(engine, program_with_vendors, capture):
    decided, metadata = deciders(capture, engine)
    directory = vendors.directory_of(program_with_vendors)
    sums = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in ("manuf", "wka")}
    assert metadata["vendors"] == {"tshark": program_with_vendors.version, "sha256": sums}
    assert vendors_sha256() == " ".join(sums.values())
    assert decided == (["tshark"] if engine == "tshark" else ["native"])


def test_installation_in_another_directory_reports_its_data_directory(program, tmp_path):
    wrapper = executable(tmp_path / "bin" / "tshark", f'#!/bin/sh\nexec {program.path} "$@"\n')
    assert (
        vendors.directory_of(tshark.Tshark(str(wrapper), program.version)).resolve()
        == vendors.directory_of(program).resolve()
    )


def test_without_tshark_the_included_list_decides_and_is_recorded(capture, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    decided, metadata = deciders(capture)
    assert decided == ["native"]
    sha256 = hashlib.sha256(vendors.INCLUDED.read_bytes()).hexdigest()
    version = vendors.INCLUDED.read_text().split("# version: ")[1].split("\n")[0]
    assert version.startswith("ieee-data ")
    assert metadata["vendors"] == {"tshark": None, "included": version, "sha256": {"vendors.txt": sha256}}
    assert vendors_sha256() == sha256


def test_included_list_contains_the_prefixes_of_its_words():
    prefixes = vendors.prefixes("# 0000:00\n001b:21-23,ff 5254:00\n")
    assert list(prefixes) == ["00:1b:21", "00:1b:22", "00:1b:23", "00:1b:ff", "52:54:00"]
    text = vendors.INCLUDED.read_text()
    count = int(text.split("# prefixes: ")[1].split("\n")[0])
    assert len(vendors.included().core) == len(set(vendors.prefixes(text))) == count > 30_000


def test_included_list_matches_the_output_of_its_script():
    """Regenerates the list to detect edits by hand."""
    require(LISTING.is_file(), "Debian's package ieee-data is not installed")
    created = run(sys.executable, ROOT / "workflow" / "setup" / "vendors.py", check=True).stdout
    version = vendors.included().version
    require(f"# version: {version}\n" in created, f"ieee-data {version} is not installed")
    assert created == vendors.INCLUDED.read_text()


def test_vendor_lists_of_a_newer_tshark_are_not_used(capture, monkeypatch, tmp_path):
    data = install(tmp_path / "other", "4.2.0", monkeypatch)
    for name in vendors.FILES:
        (data / name).write_text("00:1B:21\tIntelCor\n")
    assert vendors.find() is None
    assert deciders(capture)[0] == ["unsure"]


def test_vendor_lists_next_to_the_program_are_used(capture, monkeypatch, tmp_path):
    data = install(tmp_path / "other", "4.0.99", monkeypatch)
    (data / "manuf").write_text("00:00:00\tXerox\n00:01:00\tEquip\n00:1B:21\tIntelCor\n")
    assert vendors.find() is None  # the second list is missing
    (data / "wka").write_text("01-00-3C\t\tAuspex\n")
    found = vendors.find()
    assert len(found.core) == 4
    assert found.version == "4.0.99"


def test_vendor_lists_are_read_completely_and_decide(program_with_vendors):
    """Counts all three-byte prefixes of the installed lists with a separate parser."""
    assert len(vendors.find(program_with_vendors).core) == len(vendor_prefixes(program_with_vendors)) > 10_000
