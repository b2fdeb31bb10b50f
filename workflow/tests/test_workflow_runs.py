"""The whole workflow on tiny captures: what is made, what is made again, and what happens where something breaks."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from traces import busy_port, write_pcap
from workflow_run import ROOT, Workplace, workplace

# What has to have the same bytes wherever and however it was made. The catalog is left out: its content is the same,
# DuckDB's file around it is not.
RESULTS = ("acap/*", "flows/*", "tables/*", "figures/*.svg", "provenance.json")
STOPPED_S = 300  # never reached but where it hangs
DIGESTS = ("acap/*", "flows/*")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workplace:
    """A campaign that ran to its end on one core; tests look at it and leave it as it is."""
    place = workplace(tmp_path_factory.mktemp("finished"))
    place.succeed("--cores", "1")
    return place


@pytest.fixture
def again(finished, tmp_path_factory) -> Workplace:
    """A copy of the finished campaign for tests that change something, its files as old as they were.

    It stands beside the original: the paths of the SQL files, relative to it, are the same.
    """
    folder = tmp_path_factory.mktemp("again")
    shutil.copytree(finished.folder, folder, symlinks=True, dirs_exist_ok=True)
    return Workplace(folder)


def rules_run(said: str) -> set[str]:
    """Names of the rules that a run did, or a dry run would do."""
    table = said.split("Job stats:")[1].split("total", maxsplit=1)[0] if "Job stats:" in said else ""
    return {line.split()[0] for line in table.splitlines() if re.search(r" \d+$", line)} - {"all"}


def test_a_run_makes_everything_that_the_layout_names(finished):
    made = {path.name for path in finished.campaign.iterdir()}
    assert {"raw", "acap", "flows", "catalog.duckdb", "partial", "tables", "provenance.json"} <= made
    assert {"figures", "report.html", "logs", "benchmarks"} <= made
    assert (finished.campaign / "raw" / "alpha-p1.pcap.gz").is_symlink()
    for stage in ("collect", "digest", "analyze"):
        assert (finished.campaign / "benchmarks" / stage / "beta-p1.tsv").is_file()
        assert (finished.campaign / "logs" / stage / "beta-p1.log").is_file()


def test_what_a_run_makes_is_its_owners_alone(finished):
    others = [path for path in finished.campaign.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077]
    assert others == []


def test_a_second_run_does_nothing(finished):
    before = finished.sha256(*RESULTS)
    assert "Nothing to be done" in finished.succeed()
    assert finished.sha256(*RESULTS) == before


def test_another_setting_reruns_what_it_changes_and_nothing_else(again):
    again.configure(analysis={"top_flows": 3})
    assert rules_run(again.succeed("--dry-run")) == {"process", "figures", "report"}
    again.configure(analysis={"traffic": "all"})
    assert rules_run(again.succeed("--dry-run")) == {"index", "process", "figures", "report"}
    again.configure(digest={"engine": "native"})
    assert rules_run(again.succeed("--dry-run")) == {"digest", "analyze", "index", "process", "figures", "report"}


def test_a_capture_that_changed_is_digested_again_and_the_others_are_not(again):
    (again.folder / "captures" / "alpha-p1.pcap.gz").write_bytes(
        (again.folder / "captures" / "beta-p1.pcap.gz").read_bytes()
    )
    said = again.succeed("--dry-run")
    assert re.search(r"^digest +1$", said, re.M), said
    assert re.search(r"^analyze +1$", said, re.M), said


def tables_name(place: Workplace) -> set[str]:
    """The samples that the campaign's tables were made of."""
    lines = (place.campaign / "tables" / "flows_per_sample.csv").read_text().splitlines()[1:]
    return {line.split(",")[2].strip('"') for line in lines}


def test_a_sample_that_left_the_sheet_no_longer_counts_and_its_files_are_removed(again):
    sheet = again.folder / "config" / "samples.tsv"
    sheet.write_text("".join(line for line in sheet.open() if not line.startswith("beta-p1")))
    again.succeed("process")
    assert not (again.campaign / "acap" / "beta-p1.parquet").exists()
    assert tables_name(again) == {"alpha-p1", "alpha-p2"}


def test_a_sample_that_is_excluded_no_longer_counts_though_its_files_are_there(again):
    again.configure(exclude=["alpha-p2"])
    again.succeed("process")
    assert tables_name(again) == {"alpha-p1", "beta-p1"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> tuple[Workplace, subprocess.CompletedProcess]:
    """Three good captures, a text file named .pcap, and a file that is not there; and their run."""
    folder = tmp_path_factory.mktemp("broken")
    place = workplace(folder)
    (folder / "captures" / "letter.pcap").write_text("Dear reader, this is not a capture at all.\n")
    sheet = folder / "config" / "samples.tsv"
    sheet.write_text(
        sheet.read_text() + "letter\talpha\tp3\t../captures/letter.pcap\nlost\talpha\tp4\t../captures/lost.pcap\n"
    )
    return place, place.run("--keep-going", "--cores", "2")


def test_broken_samples_fail_alone_and_say_why_while_the_rest_is_finished(broken):
    broken, ended = broken
    assert ended.returncode != 0
    assert re.search(r"acapella: error: .*letter\.pcap: ", ended.stdout), ended.stdout
    assert re.search(r"acapella: error: .*samples\.tsv line 6: .*lost\.pcap: no such file", ended.stdout), ended.stdout
    partial = {path.name for path in (broken.campaign / "partial").iterdir()}
    assert partial == {"alpha-p1", "alpha-p2", "beta-p1"}
    assert not list(broken.campaign.glob("*/.*.part")), "nothing half written stays"
    assert not (broken.campaign / "acap" / "letter.parquet").exists()
    assert not (broken.campaign / "tables").exists(), "tables are not made of what happens to be there"
    assert re.search(r"^  letter: acapella: error: .*letter\.pcap: ", ended.stdout, re.M), ended.stdout
    assert "\n  exclude: [letter, lost]" in ended.stdout


def test_a_campaign_goes_on_without_samples_that_the_config_excludes(broken, finished, tmp_path_factory):
    place = Workplace(tmp_path_factory.mktemp("without"))
    shutil.copytree(broken[0].folder, place.folder, symlinks=True, dirs_exist_ok=True)
    place.configure(exclude=["letter", "lost"])
    place.succeed("process")
    ours, theirs = place.sha256(*DIGESTS), finished.sha256(*DIGESTS)
    assert ours == theirs
    assert place.sha256("tables/frame_sizes.csv") == finished.sha256("tables/frame_sizes.csv")


def test_a_campaign_keeps_what_is_before_the_damage_in_a_capture(tmp_path):
    """A record whose length cannot be, in the middle; the sample that is whole is not digested again."""
    place = Workplace(tmp_path)
    place.configure(digest={"engine": "native"})
    (tmp_path / "captures").mkdir()
    write_pcap(tmp_path / "captures" / "whole.pcap", busy_port())
    wild = write_pcap(tmp_path / "captures" / "wild.pcap", busy_port(shift=1))
    wild.write_bytes(wild.read_bytes() + struct.pack("<IIII", 1, 1, 2**28, 2**28) + bytes(100))
    place.sheet(*((name, "alpha", name, f"../captures/{name}.pcap") for name in ("whole", "wild")))
    ended = place.run("--keep-going", "process")
    assert ended.returncode != 0
    assert "before the damage in wild, by this one:\n  digest: {damaged: keep}" in ended.stdout, ended.stdout
    whole = place.campaign / "acap" / "whole.parquet"
    made_ns = whole.stat().st_mtime_ns
    place.configure(digest={"engine": "native", "damaged": "keep"})
    place.succeed("process")
    assert whole.stat().st_mtime_ns == made_ns
    rows = pq.read_table(place.campaign / "tables" / "capture_quality.parquet").to_pylist()
    assert {row["sample"]: row["file_unread_bytes"] for row in rows} == {"whole": 0, "wild": 116}
    assert [row["frames"] for row in rows if row["sample"] == "wild"] == [len(busy_port())]


def test_digests_come_from_the_cache_of_another_campaign(finished, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    first, second = workplace(tmp_path / "first"), workplace(tmp_path / "second")
    second.sheet(*(("other-name", "alpha", "p1", "../captures/alpha-p1.pcap.gz"),))
    for place in (first, second):
        place.environment["SNAKEMAKE_OUTPUT_CACHE"] = str(cache)
    first.succeed("--cache", "--until", "digest")
    assert len(list(cache.iterdir())) == 12, "two entries per sample, a checksum beside each"
    assert first.sha256(*DIGESTS) == finished.sha256(*DIGESTS)
    second.succeed("--cache", "--until", "digest")
    assert len(list(cache.iterdir())) == 12
    for kind in ("acap", "flows"):
        link = second.campaign / kind / "other-name.parquet"
        assert link.is_symlink() and link.resolve().parent == cache
        assert link.read_bytes() == (finished.campaign / kind / "alpha-p1.parquet").read_bytes()
    logs = list((second.campaign / "logs" / "digest").glob("*.log"))  # Snakemake makes the file, digest would fill it
    assert not any(log.read_text() for log in logs), "a digest ran although the cache had it"


def function_of_rules(name: str) -> str:
    """The source of a function in rules/samples.smk."""
    return re.search(rf"^def {name}\(.*?\n(?:\n\n|\Z)", (ROOT / "rules" / "samples.smk").read_text(), re.M | re.S)[0]


class Elsewhere:
    """A rule of a Snakemake that keeps the benchmark in another attribute than today's."""

    name = "digest"
    benchmark = "benchmarks/x.tsv"


def test_a_snakemake_that_keeps_benchmarks_elsewhere_is_named_instead_of_failing_in_the_dark():
    names = {"sys": sys, "snakemake_version": "99"}
    exec(function_of_rules("without_benchmark"), names)
    with pytest.raises(SystemExit, match="--cache does not work with Snakemake 99: rule digest keeps"):
        names["without_benchmark"](Elsewhere())


def test_killed_and_started_again_in_another_folder_with_two_cores_it_makes_the_same_bytes(finished, tmp_path):
    place = workplace(tmp_path / "elsewhere", digest={"threads": 2})
    running = subprocess.Popen(
        place.command("--cores", "1"),
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(place.campaign.glob("acap/*.parquet")) and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert not (place.campaign / "report.html").exists()
    place.succeed("--unlock")
    place.succeed("--cores", "2")
    assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_asked_to_stop_again_and_again_it_ends_and_leaves_nothing_behind(tmp_path):
    """As `kill` to the process group of `make demo`, which passes the signal on."""
    place = workplace(tmp_path)
    running = subprocess.Popen(
        place.command("--cores", "2"),
        cwd=place.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(place.campaign.glob("logs/digest/*.log")) and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGTERM)
    end = time.monotonic() + STOPPED_S
    while running.poll() is None and time.monotonic() < end:
        running.terminate()
        time.sleep(0.01)
    stopped = running.poll()
    if stopped is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert stopped, "it hangs, or went on to its end"
    assert not list(place.campaign.rglob("*.part"))
    assert not list(place.folder.glob(".snakemake/locks/*")), "the next run would ask for --unlock"


WAITING_TSHARK = """#!/bin/sh
case " $* " in
  *" -r - "*) exec sleep {seconds} ;;
  *) exec {tshark} "$@" ;;
esac
"""


def runs(*words: str) -> bool:
    """Return whether a process with this command line runs."""
    command = "".join(f"{word}\0" for word in words).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_bytes() == command:
                return True
    return False


def test_after_ctrl_c_it_says_how_to_go_on_and_a_second_run_finishes(finished, tmp_path):
    """As a terminal does it, to the whole process group, while a digest waits for its tshark."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("no tshark: it holds the digest up until Ctrl-C")
    place = workplace(tmp_path / "place")
    waiting, seconds = tmp_path / "programs" / "tshark", f"600.{os.getpid()}"
    waiting.parent.mkdir()
    waiting.write_text(WAITING_TSHARK.format(seconds=seconds, tshark=tshark))
    waiting.chmod(0o755)
    running = subprocess.Popen(
        place.command("--cores", "1"),
        cwd=place.folder,
        env=os.environ | {"PATH": f"{waiting.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not runs("sleep", seconds):
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    try:
        said, _ = running.communicate(timeout=STOPPED_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        said, _ = running.communicate()
        pytest.fail(f"it hangs:\n{said}")
    assert running.returncode != 0, said
    assert "acapella: stopped; run snakemake again to go on" in said.splitlines(), said
    assert "these samples failed" not in said and "Traceback" not in said, said
    assert not list(place.campaign.rglob("*.part"))
    place.succeed("--cores", "2", "process")
    assert place.sha256("acap/*", "flows/*", "tables/*") == finished.sha256("acap/*", "flows/*", "tables/*")


SIGNAL_WHILE_LOCKED = """
import _thread, os, signal, threading, time
from types import SimpleNamespace
from snakemake.scheduling.job_scheduler import JobScheduler
scheduler = JobScheduler.__new__(JobScheduler)
scheduler._lock, scheduler._open_jobs, scheduler._user_kill = threading.Lock(), threading.Semaphore(0), None
signal.signal(signal.SIGTERM, scheduler.exit_gracefully)
JOB_RECORDS = SimpleNamespace(stopping=False)
{function}
stop_without_deadlock()
with scheduler._lock:  # as its main thread has it while it clears up after a job
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
scheduler._open_jobs.acquire()
assert scheduler._user_kill == "graceful" and JOB_RECORDS.stopping
"""


def test_a_signal_to_stop_does_not_wait_for_what_it_interrupts():
    program = SIGNAL_WHILE_LOCKED.format(function=function_of_rules("stop_without_deadlock"))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=STOPPED_S)
    assert re.search(r"^onstart:\n(    .*\n)*    stop_without_deadlock\(\)$", (ROOT / "Snakefile").read_text(), re.M)


def test_snakemake_makes_its_own_report_with_captions(again):
    again.succeed("--report", "report.zip")
    assert (again.folder / "report.zip").stat().st_size > 0
    captions = {path.stem for path in (ROOT / "workflow" / "report").glob("*.rst")}
    assert {path.stem for path in (again.campaign / "figures").glob("*.svg")} <= captions


TRIALS = ROOT / ".test" / "trials"
COMPARED = {
    "trials": {"steady": ["a", "b"], "congested": ["a", "c"], "queues": [["a", "c"], "b"]},
    "consistency": {"within_ns": [100, 10]},
}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, ["--windows=50"]),
        ({"window": "10ms", "windows": 7}, ["--window=10ms"]),
        (
            {"flow": "10.0.0.1:5,10.0.0.2:6,udp", "from": "2025-12-31 00:00:00Z", "to": "2026-01-01 00:00:00Z"},
            ["--flow=10.0.0.1:5,10.0.0.2:6,udp", "'--from=2025-12-31 00:00:00Z'", "'--to=2026-01-01 00:00:00Z'"],
        ),
    ],
)
def test_what_is_compared_is_what_the_configuration_says(tmp_path, keys, words):
    place = Workplace(tmp_path)
    place.configure(trials={"steady": ["a", "b"]}, consistency=keys)
    place.sheet(*((name, "lab", f"p{name}", str(TRIALS / f"{name}.pcap.gz")) for name in "ab"))
    told = place.succeed("--dry-run", "--printshellcmds")
    (command,) = (line for line in told.splitlines() if "acapella kappa " in line)
    assert [word for word in words if f" {word} " not in command] == []
    assert ("--windows" in command) == ("window" not in keys)


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Workplace:
    """A campaign whose trials were compared; `a` is the baseline of two environments, one trial has two files."""
    place = Workplace(tmp_path_factory.mktemp("compared"))
    place.configure(**COMPARED)
    place.sheet(*((name, "lab", f"p{name}", str(TRIALS / f"{name}.pcap.gz")) for name in "abc"))
    place.succeed("--cores", "2")
    return place


def environments(place: Workplace) -> dict[str, dict]:
    """The rows of the comparison of environments."""
    rows = pq.read_table(place.campaign / "tables" / "consistency_environments.parquet").to_pylist()
    return {row["environment"]: row for row in rows}


def test_trials_are_compared_up_to_the_report(compared):
    rows = environments(compared)
    assert list(rows) == list(COMPARED["trials"]), "in the order of the config"
    steady, congested = rows["steady"], rows["congested"]
    assert (steady["U"], steady["O"], steady["undefined_runs"]) == (0, 0, 0)
    assert 0.99 < steady["kappa"] < 1
    assert congested["U"] == pytest.approx(12 / (600 + 588))
    assert congested["O"] > 0 and congested["kappa"] < steady["kappa"]
    assert (steady["within_ns"], rows["queues"]["samples"], rows["queues"]["trials"]) == (100, 3, 2)
    made = {path.name for path in (compared.campaign / "figures").iterdir()}
    assert {"kappa_components.svg", "kappa_timeline.svg", "kappa_matrix.svg", "iat_delta.svg"} <= made
    assert 'id="consistency"' in (compared.campaign / "report.html").read_text(encoding="utf-8")
    assert "Nothing to be done" in compared.succeed()


def test_a_failed_rerun_keeps_catalog_and_tables_and_the_next_run_makes_them_again(compared, tmp_path_factory):
    """A manifest and a result cannot be read; Snakemake deletes outputs before a job starts."""
    place = Workplace(tmp_path_factory.mktemp("failed"))
    shutil.copytree(compared.folder, place.folder, symlinks=True, dirs_exist_ok=True)
    kept = ("catalog.duckdb", "tables/*", "consistency/*")
    before = place.sha256(*kept)
    broken = {
        "trials": (place.campaign / "kappa" / "steady.json", r".*kappa/steady.json: "),
        "index": (place.campaign / "raw" / "b.json", r".* sample b cannot be indexed: "),
    }
    for stage, (path, words) in broken.items():
        text = path.read_text()
        write_unnoticed(path, "{")
        said = place.run("--forcerun", stage, "--until", stage).stdout
        assert f"acapella: these jobs failed:\n  {stage}: " in said, said
        assert re.search(rf"^  {stage}: acapella: error: {words}", said, re.M), said
        assert "deleted earlier results" not in said
        assert place.sha256(*kept) == before
        write_unnoticed(path, text)
    assert {"index", "trials"} <= rules_run(place.succeed("--dry-run"))


def write_unnoticed(path, text):
    """Write a file and keep its modification time, so that Snakemake runs only what is forced."""
    made_ns = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(made_ns, made_ns))


def test_published_tables_of_all_stages_are_views_of_the_catalog(compared):
    con = duckdb.connect(str(compared.campaign / "catalog.duckdb"), read_only=True)
    tables = {path.stem for path in (compared.campaign / "tables").glob("*.parquet")}
    assert {"consistency", "frame_sizes"} <= tables
    for name in tables:
        rows = pq.read_metadata(compared.campaign / "tables" / f"{name}.parquet").num_rows
        assert con.execute(f"select count(*) from {name}").fetchone() == (rows,), name


def test_the_captures_of_trials_are_in_the_provenance_by_checksum(compared):
    told = json.loads((compared.campaign / "consistency_provenance.json").read_text(encoding="utf-8"))
    checksum = {name: hashlib.sha256((TRIALS / f"{name}.pcap.gz").read_bytes()).hexdigest() for name in "abc"}
    assert told["inputs"]["queues"] == {"a+c": [checksum["a"], checksum["c"]], "b": [checksum["b"]]}
    for name, digest in told["outputs"].items():
        assert hashlib.sha256((compared.campaign / name).read_bytes()).hexdigest() == digest


def test_another_baseline_compares_its_environment_again_and_no_other(compared, tmp_path_factory):
    place = Workplace(tmp_path_factory.mktemp("rebased"))
    shutil.copytree(compared.folder, place.folder, symlinks=True, dirs_exist_ok=True)
    place.configure(**COMPARED | {"trials": COMPARED["trials"] | {"congested": ["b", "c"]}})
    said = place.succeed("--dry-run")
    assert rules_run(said) == {"kappa", "trials", "figures", "report"}
    assert re.search(r"^kappa +1$", said, re.M), said
    place.configure()
    # without trials no page about them stays, and their samples count as traffic
    assert rules_run(place.succeed("--dry-run")) == {"index", "process", "figures", "report"}


HIDDEN = {
    "monday-north": ("zurich", "tengig-0-7"),
    "monday-south": ("zurich", "tengig-0-9"),
    "evening-oslo": ("oslo", "eth77"),
}


def test_with_pseudonyms_no_true_name_is_in_what_is_published(tmp_path):
    """Sites, ports, samples, the names of their files, and environments, in texts and in the cells of tables."""
    place = Workplace(tmp_path)
    pair, joined = ["monday-north", "monday-south"], [["monday-north", "evening-oslo"], "monday-south"]
    trials = {"lab-steady": pair, "lab-queues": joined}
    place.configure(pseudonyms=True, trials=trials)
    rows = []
    for (sample, (site, port)), name in zip(HIDDEN.items(), "abc", strict=True):
        (tmp_path / f"{sample}-capture.pcap.gz").write_bytes((TRIALS / f"{name}.pcap.gz").read_bytes())
        rows.append((sample, site, port, f"../{sample}-capture.pcap.gz"))
    place.sheet(*rows)
    place.succeed("--cores", "2")
    true = {*HIDDEN, *trials, *(name for both in HIDDEN.values() for name in both)}
    patterns = (
        "tables/*",
        "figures/*",
        "consistency/*",
        "report.html",
        "provenance.json",
        "consistency_provenance.json",
    )
    published = {path for pattern in patterns for path in place.campaign.glob(pattern)}
    assert len(published) > 50
    for path in published:
        said = everything_in(path)
        assert not {name for name in true if re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}", said)}, path
    private = {"raw", "acap", "flows", "partial", "kappa", "logs", "benchmarks", "catalog.duckdb", "pseudonyms.tsv"}
    beside = {path.relative_to(place.campaign).parts[0] for path in place.campaign.rglob("*") if path not in published}
    assert beside - {"tables", "figures", "consistency"} == private, "results/README.md says what is for publication"
    kappas = pq.read_table(place.campaign / "tables" / "consistency.parquet").to_pylist()
    shown = {row[trial] for row in kappas for trial in ("trial_a", "trial_b")}
    assert all(re.fullmatch(r"S\d-P\d-0000(\+S\d-P\d-0000)?", name) for name in shown)


def everything_in(path) -> str:
    """A file's text; of Parquet its cells and what its metadata say."""
    if path.suffix != ".parquet":
        return path.read_text(encoding="utf-8")
    table = pq.read_table(path)
    return f"{table.schema.metadata} {table.to_pylist()}"
