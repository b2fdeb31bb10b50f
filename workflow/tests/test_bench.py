"""The benchmark program's own arithmetic and its command line; what it measures is never tested by time."""

import importlib
import json
import os
import sys

import pytest
from native_programs import ROOT

sys.path.insert(0, str(ROOT / "workflow" / "bench"))


def module(name: str):
    return importlib.import_module(f"acapella_bench.{name}")


def measured(cpu_s: float, wall_s: float = 10.0, stdout: bytes = b""):
    return module("programs").Measured(wall_s, cpu_s, 100.0, stdout)


def test_shares_of_the_stages_add_up_to_all_of_it():
    stages = {"read_s": 1.0, "dissect_s": 3.0, "digest_s": 5.0}
    rows = module("native").rows_of(10_000_000, measured(0.5), measured(8.5), stages)
    shares = {row["measured"]: row["value"] for row in rows if row["measured"].startswith("share of")}
    assert sum(shares.values()) == pytest.approx(100)
    assert shares["share of writing"] == pytest.approx(100 * 3 / 8)


def test_table_aligns_values_and_shows_goals():
    rows = [
        {"measured": "rate", "value": 1234567, "unit": "frames/s", "goal": ">= 5"},
        {"measured": "share", "value": 12.345, "unit": "%", "note": "of it"},
    ]
    assert module("table").of(rows).splitlines() == [
        "  rate   1,234,567 frames/s  >= 5",
        "  share      12.35 %               of it",
    ]


def test_peak_memory_of_ours_and_of_tshark_are_rows_of_their_own():
    said = b'acapella: something\n{"own_kib": 2048, "children_kib": 3072}\n'
    ours, theirs = module("hybrid").peak_rows("hybrid", said, "< 512")
    assert (ours["value"], ours["goal"]) == (2.0, "< 512")
    assert (theirs["measured"].strip(), theirs["value"]) == ("its largest child", 3.0)
    assert len(module("hybrid").peak_rows("native", b'{"own_kib": 2048, "children_kib": 0}', "< 512")) == 1


def test_peak_of_a_digest_counts_its_own_memory_apart_from_its_children(tmp_path):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = b\"x\" * (200 << 20)'], check=True); "
    code += "from acapella_bench import peak; from acapella import cli; cli.main = lambda argv: 0; peak.main([])"
    bench = module("programs").Bench.of(module("__main__").parse([]), tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "workflow" / "bench")}
    said = json.loads(bench.measure([sys.executable, "-c", code], keep=True, env=environment).stdout)
    assert 0 < said["own_kib"] < 200 << 10 < said["children_kib"]


def test_unknown_benchmark_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        module("__main__").parse(["nosuch"])
    assert ended.value.code == 2
    assert "no such benchmark: nosuch" in capsys.readouterr().err


def test_a_program_that_fails_is_named_with_its_last_line(tmp_path):
    programs = module("programs")
    bench = programs.Bench.of(module("__main__").parse(["--scale", "small"]), tmp_path)
    with pytest.raises(programs.Failed, match="sh -c: it broke"):
        bench.measure(["sh", "-c", "echo first >&2; echo it broke >&2; exit 3"])


def test_measured_runs_keep_output_and_count_cpu_time(tmp_path):
    bench = module("programs").Bench.of(module("__main__").parse([]), tmp_path)
    run = bench.measure(["sh", "-c", "echo out"], keep=True)
    assert run.stdout == b"out\n"
    assert run.peak_mib > 0


def test_samples_of_a_site_follow_each_other():
    analysis = module("analysis")
    first, later = analysis.Sample(3, 10), analysis.Sample(13, 10)
    assert first.site == later.site and first.name != later.name
    assert later.start_ns - first.start_ns == analysis.SAMPLE_GAP_NS
