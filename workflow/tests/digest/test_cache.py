"""Tests the cache of digests: damaged entries are reported and computed again, and files are private."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.generated.tiny import SECOND, add_sample
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import with_umask
from acapella_testing.runs.workflow_run import Workplace

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.cli.doctor import digest_cache
from acapella.digest import command
from acapella.digest.acap_files import metadata_of
from acapella.digest.cache import (
    changed,
    damaged_entries,
    digests,
    entries_of,
    fault_of,
    fetch,
    keep,
    record_verified,
    store,
    sum_file,
)
from acapella_core.files import sha256_of

DIGESTS = ("acap/*", "flows/*")


def flip(position):
    """Return a function that inverts one byte of an entry. `position` is a fraction of the length, or negative from the
    end.
    """

    def change(entry: Path, _=None) -> None:
        content = bytearray(entry.read_bytes())
        content[int(position * len(content)) if 0 < position < 1 else position] ^= 0xFF
        entry.write_bytes(content)

    return change


def truncate(size):
    """Return a function that truncates an entry to `size` bytes. A negative size is the number of bytes removed."""
    return lambda entry, _: entry.write_bytes(entry.read_bytes()[:size])


def replace_by_directory(entry: Path, _) -> None:
    """Replace an entry with a directory that contains a file."""
    entry.unlink()
    write_file(entry / "notes.txt", "mine\n")


def replace_by_link(entry: Path, other: Path) -> None:
    """Replace an entry with a link to another file."""
    entry.unlink()
    entry.symlink_to(other)


def replace_by_other(entry: Path, other: Path) -> None:
    """Replace an entry with the content and the checksum of another entry."""
    shutil.copyfile(other, entry)
    sum_file(entry).write_text(f"{sha256_of(entry)}  {other.name}\n")


DAMAGE = {
    "truncated": (truncate(-200), "is damaged or truncated"),
    "zero-length": (truncate(0), "is truncated: 0 bytes"),
    "one byte": (truncate(1), "is truncated: 1 bytes"),
    "flipped byte of a data page": (flip(0.1), "its bytes do not have the checksum"),
    "flipped byte of the footer": (flip(-20), "its bytes do not have the checksum"),
    "flipped byte of the magic": (flip(-1), "is damaged or truncated"),
    "content of another entry": (lambda entry, other: entry.write_bytes(other.read_bytes()), "checksum"),
    "another entry with its checksum": (replace_by_other, "checksum"),
    "directory": (replace_by_directory, "is not a regular file"),
    "link": (replace_by_link, "is a link"),
    "no checksum": (lambda entry, _: sum_file(entry).unlink(), r"has no \.sha256 file"),
    "writable by all": (lambda entry, _: entry.chmod(0o666), "can be written by others"),  # as Snakemake does
}


SAMPLES = [f"s{number}" for number, _ in enumerate(DAMAGE)]
LATER = {
    "s0": "truncated",
    "s1": "zero-length",
    "s2": "flipped byte of a data page",
    "s4": "flipped byte of the footer",
    "s5": "flipped byte of a data page",  # the output is a hard link to the entry
}
REMOVED, INTACT = "s3", "s6"


def campaign_of(directory: Path, cache: Path, samples=SAMPLES, **settings) -> Workplace:
    """Return a workplace that uses a cache. Each sample has a separate capture."""
    place = Workplace(directory)
    place.configure(digest={"engine": "native", "cache": str(cache)}, **settings)
    for shift, sample in enumerate(samples):
        write_pcap(new_directory(directory / "captures") / f"{sample}.pcap", busy_port(shift=shift))
    place.sheet(*((sample, "alpha", f"port-{sample}", f"../captures/{sample}.pcap") for sample in samples))
    return place


@pytest.fixture(scope="module")
def cached(tmp_path_factory) -> tuple[Workplace, Path]:
    """Return a campaign whose digests are in a cache, and the cache, created with umask 0. Tests do not modify them."""
    directory = tmp_path_factory.mktemp("cached")
    place = campaign_of(directory / "first", directory / "cache", [*SAMPLES, "spare"])
    with with_umask(0):
        (directory / "cache").mkdir()
        place.succeed("--until", "digest")
    return place, directory / "cache"


@pytest.fixture
def copied(cached, tmp_path) -> Path:
    """Return a copy of the cache that a test may modify."""
    return shutil.copytree(cached[1], tmp_path / "cache")


def file_of(place: Workplace, sample: str, kind: str) -> Path:
    """Return the path of a sample's acap or flow table; with batches, it is in a shard."""
    return place.campaign / Campaign.at(place.campaign).name(kind, sample, ".parquet")


def entry_of(place: Workplace, sample: str, kind: str) -> str:
    """Return the path of a sample's entry, relative to its cache."""
    entry = file_of(place, sample, kind).readlink()
    return f"{entry.parent.name}/{entry.name}"


def check_all(cache: Path) -> None:
    """Verify all entries of a cache with sha256sum."""
    for directory in cache.glob("??"):
        subprocess.run("sha256sum --quiet -c *.sha256", cwd=directory, shell=True, check=True)


def test_damaged_entries_are_reported_in_one_line_each_and_computed_again(cached, copied, tmp_path):
    """Each sample has different damage to its acap or flow table. The entries of the last sample are intact."""
    (first, original), cache = cached, copied
    kinds = dict(zip(SAMPLES, itertools.cycle(("acap", "flows")), strict=False))
    entries = {sample: cache / entry_of(first, sample, kind) for sample, kind in kinds.items()}
    for sample, (change, _) in zip(SAMPLES, DAMAGE.values(), strict=True):
        change(entries[sample], cache / entry_of(first, "spare", "acap"))
    second = campaign_of(tmp_path / "second", cache, [*SAMPLES, "spare"])
    second.succeed("--until", "digest")
    logs = second.campaign / "logs" / "digest"
    printed = "".join(path.read_text() for path in logs.glob("*.log"))
    for sample, (_, words) in zip(SAMPLES, DAMAGE.values(), strict=True):
        (report,) = (line for line in printed.splitlines() if f" of sample {sample} " in line)
        assert re.fullmatch(rf"warning: cache entry {entries[sample]} of .*{words}.*; the digest is .* again", report)
    assert len(re.findall("^warning: ", printed, re.M)) == len(SAMPLES)
    assert ": from the cache " in (logs / "spare.log").read_text()
    assert second.sha256(*DIGESTS) == first.sha256(*DIGESTS)
    check_all(cache)
    for entry in original.glob("??/*"):
        copy = cache / entry.relative_to(original)
        assert not copy.is_symlink()
        assert copy.read_bytes() == entry.read_bytes()
    assert [path.read_text() for path in cache.glob("??/*.rejected/*/notes.txt")] == ["mine\n"]


def state(directory: Path) -> dict[Path, tuple]:
    """Return inode, size and modification time of all files and links below a directory."""
    found = {path: path.lstat() for path in directory.rglob("*") if path.is_symlink() or path.is_file()}
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


@pytest.mark.soak
@pytest.mark.parametrize("batches", [{}, {"batches": {"samples": 3}}], ids=["single", "batches"])
def test_entries_damaged_during_a_run_do_not_end_it(cached, copied, tmp_path, batches):
    """The entries keep their modification time, as after a disk error or if a program restores it.

    Snakemake treats the output as complete, so without the check `index` is the first to read the damage. Dry runs
    delete nothing.
    """
    (first, _), cache, damaged = cached, copied, [*LATER, REMOVED]
    samples = sorted([*damaged, INTACT])
    place = campaign_of(tmp_path / "second", cache, samples, **batches)
    place.succeed("--until", "digest")
    entries = {sample: cache / entry_of(place, sample, "acap") for sample in samples}
    linked = file_of(place, "s5", "acap")
    linked.unlink()
    os.link(entries["s5"], linked)
    os.utime(place.directory / "captures" / "s5.pcap", ns=(0, 0))  # older than the output, or Snakemake reruns it
    for sample, damage in LATER.items():
        before = entries[sample].stat()
        DAMAGE[damage][0](entries[sample], entries[sample])
        os.utime(entries[sample], ns=(before.st_atime_ns, before.st_mtime_ns))
    entries[REMOVED].unlink()
    before = state(cache) | state(place.campaign)
    looking = (("process", "--dry-run"), ("--lint",), ("--unlock",), ("process", "--summary"))
    for arguments in () if batches else looking:  # only once: both cases start with the same files
        printed = place.run(*arguments).stdout
        assert state(cache) | state(place.campaign) == before, (arguments, printed)
        if "--dry-run" in arguments:
            assert len(re.findall("^warning: cache entry ", printed, re.M)) == len(damaged), printed
            assert len(re.findall(r"^Job \d+: digest s", printed, re.M)) == len(damaged), printed
    printed = place.succeed("index" if batches else "process")
    for sample in damaged:
        warning = rf"^warning: cache entry {entries[sample]} of sample {sample} "
        assert len(re.findall(warning, printed, re.M)) == 1, printed
    assert len(re.findall("^warning: ", printed, re.M)) == len(damaged)
    assert not changed(entries[INTACT]), "its checksum would be computed before every run"
    ours, theirs = (
        {(Path(name).name, checksum) for name, checksum in each.sha256("acap/**/*.parquet").items()}
        for each in (place, first)
    )
    assert ours <= theirs
    assert (place.campaign / ("catalog.duckdb" if batches else "provenance/process.json")).is_file()
    check_all(cache)
    assert all(file_of(place, sample, "acap").is_symlink() for sample in samples)


@pytest.mark.parametrize("kind", ["acap", "flows"])
def test_index_detects_damage_with_an_unchanged_modification_time(kind, tmp_path, capsys):
    directory, cache = tmp_path / "made", new_directory(tmp_path / "cache")
    for sample in ("a", "b"):
        add_sample(directory, sample)
    for number, output in enumerate(sorted(directory.glob("*/*.parquet"))):
        keep(output, cache / f"{number:064x}_{output.parent.name}.parquet")
    assert cli.main(["campaign", "index", str(directory)]) == 0
    assert cli.main(["sql", str(directory), "select count(*) as n from frames"]) == 0
    assert capsys.readouterr().out.endswith("\nn\n4\n")
    link = directory / kind / "b.parquet"
    entry, before = link.readlink(), link.stat()
    flip(0.1)(entry)
    os.utime(entry, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cli.main(["campaign", "index", str(directory)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{entry}: sample b: the cache entry is damaged: " in line
    assert line.endswith("; run snakemake again, which computes the digest again")
    assert entry.exists()
    assert not link.is_symlink()  # Snakemake recreates a missing file


def test_other_users_cannot_read_or_write_entries_with_umask_0(cached):
    place, cache = cached
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in cache.glob("??/*")}
    assert len(modes) == 4 * len([*SAMPLES, "spare"]) and set(modes.values()) == {"0o600"}, modes
    assert not cache.stat().st_mode & 0o022
    assert [path for path in place.campaign.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077] == []


def test_unwritable_cache_does_not_end_a_run(tmp_path):
    place = campaign_of(tmp_path / "place", write_file(tmp_path / "file", "") / "cache", ["s0"])
    place.succeed("--until", "digest")
    printed = (place.campaign / "logs" / "digest" / "s0.log").read_text()
    assert re.search(r"^warning: sample s0 is not cached: .*: Not a directory$", printed, re.M), printed
    assert not (place.campaign / "acap" / "s0.parquet").is_symlink()


def test_change_after_verification_is_detected_with_any_system_clock(tmp_path, monkeypatch):
    """The local clock is an hour ahead of the clock of the file system, for example of a file server."""
    directory, cache = tmp_path / "made", new_directory(tmp_path / "cache")
    add_sample(directory, "a")
    entry = cache / f"{0:064x}_acap.parquet"
    keep(directory / "acap" / "a.parquet", entry)
    os.utime(sum_file(entry), ns=(0, 0))
    ahead_ns = time.time_ns() + 3600 * SECOND
    monkeypatch.setattr(time, "time_ns", lambda: ahead_ns)
    time.sleep(0.05)  # exceeds the resolution of file timestamps
    assert damaged_entries(directory, "a") == {}
    record_verified()
    assert not changed(entry)
    assert sum_file(entry).stat().st_mtime_ns < ahead_ns
    assert sorted(cache.iterdir()) == [entry, sum_file(entry)]
    time.sleep(0.05)
    flip(0.1)(entry)
    assert changed(entry)
    assert entry in damaged_entries(directory, "a")


def filled(directory: Path, sizes: list[int]) -> list[Path]:
    """Return acaps of a new cache, each with a checksum; the first is the least recently used."""
    entries = [entries_of(directory / "cache", f"{number:064x}")[0] for number in range(len(sizes))]
    for number, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
        new_directory(entry.parent)
        keep(output_of(directory / f"{number}.parquet", size), entry)
        for path in (entry, sum_file(entry)):
            os.utime(path, ns=(number * SECOND, number * SECOND))
    return entries


def output_of(path: Path, size: int) -> Path:
    """Write a file that begins and ends like a Parquet file."""
    return write_file(path, b"PAR1" + bytes(size) + b"PAR1")


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ([], [0, 1, 2]),
        (["--max-size", "1T"], [0, 1, 2]),
        (["--max-size", "25000"], [1, 2]),
        (["--max-size", "1", "--dry-run"], [0, 1, 2]),
        (["--max-size", "1"], []),
        (["--unused-days", "1"], []),
    ],
)
def test_prune_removes_the_least_recently_used_digests(tmp_path, capsys, arguments, kept):
    entries = filled(tmp_path, [10_000] * 3)
    assert cli.main(["campaign", "cache", str(tmp_path / "cache"), *arguments]) == 0
    printed = capsys.readouterr().out
    assert f"{tmp_path / 'cache'}: 3 digests, 29.7 KiB\n" in printed
    removes = "--dry-run" in arguments or len(kept) < len(entries)
    assert ("; to query frames of campaigns with these digests again: run snakemake" in printed) == removes
    assert [n for n, entry in enumerate(entries) if entry.exists()] == kept
    assert [n for n, entry in enumerate(entries) if sum_file(entry).exists()] == kept


def test_used_digest_is_pruned_last(tmp_path):
    first, second = filled(tmp_path, [100, 100])
    flows = [entry.with_name(entry.name.replace("_acap", "_flows")) for entry in (first, second)]
    for entry in flows:
        keep(output_of(tmp_path / entry.name, 100), entry)
        for path in (entry, sum_file(entry)):
            os.utime(path, ns=(0, 0))
    assert fetch([first, flows[0]], [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert [digest.entries[0] for digest in digests(tmp_path / "cache")] == [second, first]


@pytest.mark.parametrize("config", [None, "digest: {cache: null}", "digest: {cache: ~/cache}", "[", "1"])
def test_doctor_reports_the_size_of_the_cache(tmp_path, monkeypatch, config):
    filled(tmp_path, [100, 100])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ACAPELLA_CACHE", str(tmp_path / ("none" if "~" in (config or "") else "cache")))
    if config:
        write_file(tmp_path / "config" / "config.yaml", config)
    (finding,) = digest_cache()
    assert finding.available and finding.state == f"2 digests, 0.0 GiB in {tmp_path / 'cache'}"


def test_entries_of_other_users_are_used_only_in_a_shared_cache(tmp_path, monkeypatch):
    (entry,) = filled(tmp_path, [100])
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    os.chown(entry, 4242, -1)
    assert fault_of(entry) == "belongs to another user"
    entry.parent.chmod(0o2770)
    assert fault_of(entry) is None
    entry.parent.chmod(0o2777)
    assert fault_of(entry) == "belongs to another user"
    entry.parent.chmod(0o2770)
    monkeypatch.setattr(os, "getegid", lambda: 12345)
    monkeypatch.setattr(os, "getgroups", lambda: [12346])
    assert fault_of(entry) == "belongs to another user", "this user is not in the group of the cache"


def test_new_directories_of_a_shared_cache_never_have_a_different_mode(tmp_path, monkeypatch):
    """If they were private for a moment, a kill at that moment would leave a directory that other users cannot use."""
    new_directory(tmp_path / "cache").chmod(0o2770)
    monkeypatch.setattr(Path, "chmod", None)
    assert stored_in(tmp_path).parent.stat().st_mode & 0o7777 == 0o2770


def test_new_directories_and_entries_of_a_shared_cache_are_shared(tmp_path):
    new_directory(tmp_path / "cache").chmod(0o2770)
    entry = stored_in(tmp_path)
    assert entry.parent.stat().st_mode & 0o7777 == 0o2770
    assert {entry.stat().st_mode & 0o777, sum_file(entry).stat().st_mode & 0o777} == {0o640}


def stored_in(directory: Path) -> Path:
    """Store an entry in the cache in ``directory``; return it."""
    entry, output = entries_of(directory / "cache", "0" * 64)[0], output_of(directory / "a.parquet", 100)
    store([entry], [output])
    assert output.resolve() == entry
    return entry


def private_in(directory: Path) -> bool:
    """Store an entry in the cache in ``directory``; return whether only this user can read it and write to it."""
    entry = stored_in(directory)
    written = [path.stat().st_mode & 0o022 for path in (entry.parent.parent, entry.parent, entry)]
    return not any(written) and entry.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o2770, 0o2775])
def test_new_cache_in_a_directory_of_a_group_is_private(tmp_path, mode):
    tmp_path.chmod(mode)
    assert private_in(tmp_path)
    assert (tmp_path / "cache").stat().st_mode & 0o7777 == 0o700


def test_cache_created_by_mkdir_in_a_directory_of_a_group_is_private(tmp_path):
    """With umask 002, `mkdir` creates a directory of mode 2775 there."""
    tmp_path.chmod(0o2775)
    with with_umask(0o002):
        (tmp_path / "cache").mkdir()
        assert (tmp_path / "cache").stat().st_mode & 0o7777 == 0o2775
        assert private_in(tmp_path)


def test_concurrent_writers_of_an_entry_leave_an_intact_one(tmp_path, capture):
    """Several processes digest the same capture with the same cache at the same time."""
    command = [sys.executable, "-m", "acapella.cli.main", "digest", str(capture), "--engine", "native"]
    outputs = [tmp_path / f"{number}.parquet" for number in range(4)]
    running = [subprocess.Popen([*command, "--cache", tmp_path / "cache", "-o", output]) for output in outputs]
    assert [process.wait() for process in running] == [0] * 4
    (digest,) = digests(tmp_path / "cache")
    assert all(fault_of(entry) is None for entry in digest.entries) and len(digest.entries) == 2
    assert {output.resolve() for output in outputs} == {digest.entries[0]}
    assert not list((tmp_path / "cache").rglob("*.part"))


@pytest.fixture
def digest(tmp_path):
    """Return a function that digests a capture with a cache and returns the exit code."""
    words = ["--engine", "native", "--cache", str(tmp_path / "cache")]

    def run(source: Path, name: str, *options: str) -> int:
        return cli.main(["digest", str(source), *words, "-o", str(tmp_path / name), *options])

    return run


@pytest.mark.parametrize(
    "change", [["--port", "p2"], ["--deep-frames", "3"], ["--max-ratio", "9"], ["--cache-key", "b"]]
)
def test_different_parameters_use_different_entries(tmp_path, digest, capture, change):
    for number, more in enumerate(([], [], change)):
        assert digest(capture, f"{number}.parquet", "--port", "p1", *more) == 0
    first, same, other = ((tmp_path / f"{number}.parquet").resolve() for number in range(3))
    assert first == same != other


def test_version_in_the_metadata_matches_the_program(tmp_path, digest, capture, monkeypatch):
    """Snakemake passes the versions of code and tshark as --cache-key; it does not contain the program's version."""
    for version in ("1.0", "2.0"):
        monkeypatch.setattr(command, "__version__", version)
        assert digest(capture, f"{version}.parquet", "--cache-key", "a") == 0
        assert metadata_of(tmp_path / f"{version}.parquet")["version"] == version


def test_damaged_capture_from_the_cache_has_the_same_exit_code_and_message(digest, capture, capsys):
    capture.write_bytes(capture.read_bytes() + b"\xff" * 100)
    names = ("first.parquet", "cached.parquet")
    first, cached = ((digest(capture, name), capsys.readouterr().err.splitlines()[-1]) for name in names)
    assert first == cached
    assert first[0] == 1
    assert digest(capture, "c.parquet", "--damaged", "keep") == 0


def test_checksum_from_storage_finds_a_digest_and_is_verified_before_one_is_stored(tmp_path, digest, capture, capsys):
    other = write_file(tmp_path / "other.pcap", "bytes that are not read")
    checksum = f"--sha256={sha256_of(capture)}"
    assert digest(other, "wrong.parquet", checksum) == 2
    assert capsys.readouterr().err.endswith("does not have the SHA-256 of its object in storage; fetch it again\n")
    assert digests(tmp_path / "cache") == []
    assert [digest(capture, "a.parquet", checksum), digest(other, "b.parquet", checksum)] == [0, 0]
    assert (tmp_path / "a.parquet").resolve() == (tmp_path / "b.parquet").resolve()
