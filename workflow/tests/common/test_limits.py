"""Commands that read a malicious capture stop at the documented limits, and print a line that names the limit."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcap_files import header, record
from acapella_testing.frames.pcapng_files import SECTION, interface
from acapella_testing.native_programs import ROOT
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require_programs

from acapella.cli.main import main
from acapella.common import decompression as decompression_of_p4
from acapella.flowreports import program
from acapella.flowreports.comparators import meters
from acapella_capture.scan import scan
from acapella_core import _native, decompression
from acapella_core.arguments import size_bytes
from acapella_core.errors import DAMAGED, MISTAKE, OUTSIDE

PCAP = header()
HEADER = [("s", "<u4"), ("ns", "<u4"), ("cap", "<u4"), ("wire", "<u4")]  # header of a record
MIB = 1 << 20
FREE_OF_RATIO = 16 * MIB
SMALL_FRAMES = (MIB - len(PCAP)) // 16  # empty frames in 1 MiB


def zstd(plain: bytes) -> bytes:
    return pa.compress(plain, "zstd", asbytes=True)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory) -> Path:
    """Write 10 GiB of empty frames in less than 400 kB. A zstd file may contain any number of zstd frames."""
    path = tmp_path_factory.mktemp("bomb") / "zeros.pcap.zst"
    path.write_bytes(zstd(PCAP) + zstd(bytes(64 * MIB)) * 160)
    assert path.stat().st_size < 400_000
    return path


def own_mib(*words: object, code: int = 0) -> tuple[float, str]:
    """Return the peak memory of an `acapella` command itself in MiB, and its standard error."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "bench")}
    ended = run(sys.executable, "-m", "acapella_bench.peak", *words, env=environment)
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])["own_kib"] / 1024, ended.stderr


def test_defaults_equal_those_of_the_core():
    core = _native.DecompressionLimits()
    assert (core.bytes, core.ratio) == (size_bytes(decompression.MAX_DECOMPRESSED), decompression.MAX_RATIO)


def test_digest_of_a_decompression_bomb_ends_at_the_maximum_ratio(bomb, tmp_path, capsys):
    out = tmp_path / "out.parquet"
    arguments = ["digest", str(bomb), "-o", str(out), "--engine", "native"]
    assert main(arguments) == DAMAGED
    assert "exceed 10000 times the compressed bytes (--max-ratio)" in capsys.readouterr().err
    assert pq.read_metadata(out).num_rows == pytest.approx(FREE_OF_RATIO / 16, abs=40_000)
    assert main([*arguments, "--max-decompressed", "1M", "--damaged", "keep"]) == 0
    assert "more than 1048576 decompressed bytes (--max-decompressed)" in capsys.readouterr().err
    assert pq.read_metadata(out).num_rows == SMALL_FRAMES


def test_readers_stop_at_a_decompression_bomb(bomb, tmp_path, capsys):
    key, small = str(tmp_path / "key"), ["--max-decompressed", "1M"]
    assert main(["anonymize", "--new-key", key]) == 0
    assert main(["anonymize", str(bomb), "-o", str(tmp_path / "out.pcap"), "--key-file", key, *small]) == DAMAGED
    assert "--max-decompressed" in capsys.readouterr().err
    other = write_file(tmp_path / "other.pcap", PCAP + record(10**9, bytes(60)))
    assert main(["kappa", str(bomb), str(other), "--json", *small]) == DAMAGED
    assert json.loads(capsys.readouterr().out)["trials"][0]["files"][0]["end"] == "decompression_limit"
    merged = ["digest", str(bomb), str(other), "-o", str(tmp_path / "m.parquet"), "--engine", "native", *small]
    assert main(merged) == DAMAGED
    assert "zeros.pcap.zst: more than 1048576 decompressed bytes" in capsys.readouterr().err
    found = scan(bomb, decompression.limits("1M", 10))
    assert found.fault.startswith("decompression limit at byte ")
    assert found.frames == SMALL_FRAMES


def test_collector_stops_at_a_decompression_bomb(bomb, tmp_path, capsys):
    pair = "register qp_number 0 0x11\nregister qp_base 0 0x100000\nregister qp_end 0 0x1c0000\n"
    control, directory = write_file(tmp_path / "qp.control", pair), tmp_path / "reports"
    words = ["p4", "collect", str(bomb), "--control", str(control), "-o", str(directory), "--max-decompressed", "1M"]
    assert main(words) == DAMAGED
    assert "more than 1048576 decompressed bytes (--max-decompressed)" in capsys.readouterr().err
    (end,) = json.loads((directory / "counters.json").read_text())["captures"]
    assert (end["end"], end["records"]) == ("decompression_limit", SMALL_FRAMES)


@pytest.mark.skipif(program.why_unavailable() is not None, reason=f"{program.why_unavailable()}")
def test_data_plane_stops_at_a_decompression_bomb(bomb, tmp_path, capfd):
    """Both commands that decompress for the data plane count the frames before the limit and exit with a code other
    than 0.
    """
    stats = tmp_path / "stats.json"
    words = ["p4", "run", "preprocess", "--in", str(bomb), "--stats", str(stats), "--pipeline", "interpreted"]
    assert main([*words, "--max-decompressed", "1M"]) == DAMAGED
    assert json.loads(stats.read_text())["in"] == SMALL_FRAMES
    error = capfd.readouterr().err
    assert "more than 1048576 decompressed bytes (--max-decompressed)" in error
    assert decompression_of_p4.RAISE in error
    assert main([*words, "--max-ratio", "0"]) == MISTAKE
    words = ["p4", "reports", str(bomb), "-o", str(tmp_path / "reports"), "--max-decompressed", "1M"]
    assert main(words) == DAMAGED
    assert "more than 1048576 decompressed bytes (--max-decompressed)" in capfd.readouterr().err
    assert json.loads((tmp_path / "reports" / "program.json").read_text())["in"] == SMALL_FRAMES
    tools = pq.read_table(tmp_path / "reports" / "tools.parquet", columns=["skipped"])["skipped"].to_pylist()
    missing = [meter.why_unavailable() for meter in meters.METERS.values()]
    assert tools[2:] == (missing if all(missing) else [meters.TOO_LARGE] * len(missing))  # same limit


def test_tshark_and_core_read_a_decompression_bomb_up_to_the_same_byte(bomb, tmp_path):
    """Checks both sides of `acapella verify`, and the filter of `acapella kappa`."""
    from acapella.kappa import selection  # noqa: PLC0415
    from acapella.verify import tables  # noqa: PLC0415

    limits, frames = decompression.limits("64K", 10), ((64 << 10) - len(PCAP)) // 16
    created = tables.write_our_digest(bomb, "native", tmp_path, limits)
    assert [pq.ParquetFile(path).metadata.num_rows for path in (created.frames, created.tags)] == [frames, frames]
    require_programs("tshark")
    assert pq.ParquetFile(tables.write_tshark_digest(bomb, tmp_path, limits).frames).metadata.num_rows == frames
    shown, _ = selection.matching_frames("frame.number > 2", [str(bomb)], limits)
    assert len(shown[str(bomb)]) == frames - 2


@pytest.mark.parametrize("words", [("--max-ratio", "0"), ("--max-decompressed", "much"), ("--memory", "-1")])
def test_invalid_limits_are_rejected(words, tmp_path, capsys):
    source = write_file(tmp_path / "a.pcap", PCAP)
    assert main(["digest", str(source), "-o", str(tmp_path / "a.parquet"), "--engine", "native", *words]) == MISTAKE
    assert capsys.readouterr().err.count("\n") == 1


def test_interface_blocks_are_limited(tmp_path):
    path = write_file(tmp_path / "interfaces.pcapng.zst", zstd(SECTION) + zstd(interface() * (1 << 18)) * 100)
    assert path.stat().st_size < 200_000
    options = ["--engine", "native", "--damaged", "keep", "--max-ratio", "100000"]
    mib, error = own_mib("digest", path, "-o", tmp_path / "i.parquet", *options)
    assert "more than 1048576 interfaces" in error
    assert mib < 300


SYN = bytes.fromhex(
    "000000000001000000000002080045000028000100004006000001020304050607080000005000000000000000005002000000000000"
)


def copies(count: int, step_ns: int = 1) -> np.ndarray:
    """Return records of the same TCP segment, sent every `step_ns`."""
    records = np.zeros(count, dtype=[*HEADER, ("f", "u1", len(SYN))])
    records["ns"] = np.arange(count) * step_ns
    records["cap"] = records["wire"] = len(SYN)
    records["f"] = np.frombuffer(SYN, dtype="u1")
    return records


def syns(flows: int) -> bytes:
    """Return a capture of spoofed SYNs, each from a different address."""
    records = copies(flows)
    records["f"][:, 26:30] = np.arange(flows, dtype=">u4").view("u1").reshape(-1, 4)
    return PCAP + records.tobytes()


@pytest.mark.soak
def test_too_many_flows_end_at_the_memory_limit(tmp_path):
    """A million flows take more than 300 MiB. The process stays within --memory plus the 150 MiB that --help states."""
    path, out = write_file(tmp_path / "syns.pcap", syns(1_000_000)), tmp_path / "s.parquet"
    words = ["digest", str(path), "-o", str(out), "--engine", "native"]
    mib, error = own_mib(*words, "--memory", "16M", code=OUTSIDE)
    assert error.count("\n") == 1
    assert "the limit is 16 MiB; raise --memory" in error
    assert not out.exists()
    assert mib < 16 + 150
    path.write_bytes(syns(120_000))
    mib, _ = own_mib(*words, "--memory", "100M")
    assert mib < 100 + 150
    limited = out.read_bytes()
    assert main(words) == 0
    assert out.read_bytes() == limited


@pytest.mark.soak
def test_equal_packets_are_compared_within_the_memory_limit(tmp_path):
    count, out = 400_000, tmp_path / "out.json"
    contents = (zstd(PCAP + copies(count, step_ns).tobytes()) for step_ns in (1, 2))
    trials = [write_file(tmp_path / f"{number}.pcap.zst", content) for number, content in enumerate(contents)]
    empty = write_file(tmp_path / "empty.pcap", PCAP)
    base, _ = own_mib("kappa", empty, empty, "--json", "-o", out)
    small, _ = own_mib("kappa", *trials, "--json", "-o", out, "--memory", "16M")
    spilled = out.read_bytes()
    own_mib("kappa", *trials, "--json", "-o", out, "--memory", "1G")
    assert spilled == out.read_bytes()
    (pair,) = json.loads(spilled)["pairs"]
    # B takes twice the time: each gap changes by 1 ns, each latency by the packet's number.
    assert (pair["n_common"], pair["ambiguous_a"]) == (count, count)
    assert pair["integers"]["gap"]["sum"] == count - 1
    assert pair["integers"]["latency"]["sum"] == count * (count - 1) // 2
    assert small - base < 48


def test_packets_out_of_order_end_at_the_memory_limit(tmp_path):
    forward = np.frombuffer(syns(200_000)[len(PCAP) :], dtype="u1").reshape(200_000, -1)
    backward = forward[::-1].copy()
    backward[:, :16] = forward[:, :16]  # timestamps
    records = {"a.pcap": forward, "b.pcap": backward}
    trials = [write_file(tmp_path / name, PCAP + each.tobytes()) for name, each in records.items()]
    out = tmp_path / "ab.json"
    _, error = own_mib("kappa", *trials, "--json", "-o", out, "--memory", "16M", code=OUTSIDE)
    assert error.count("\n") == 1
    assert "out of order" in error
    assert "raise --memory" in error
    assert not out.exists()
    own_mib("kappa", *trials, "--json", "-o", out, "--memory", "512M")
    assert json.loads(out.read_bytes())["pairs"][0]["n_common"] == 200_000
