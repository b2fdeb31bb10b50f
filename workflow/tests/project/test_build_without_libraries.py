"""The wheels on a machine without root: a C++ compiler and Python, but no headers of libraries, no cmake, ninja or
pkg-config. They are built in a mount namespace without these files and installed into an empty virtual environment."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from acapella_testing import processes
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.soak import takes_minutes
from acapella_testing.source_tree import ROOT, build_wheels, copy_sources

BIN = ROOT / ".venv" / "bin"
CAPTURES = [ROOT / ".test" / "captures" / f"alpha-p{n}.pcap.gz" for n in (1, 2)]
PROBE = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
pytestmark = [
    takes_minutes,
    pytest.mark.skipif(subprocess.run(PROBE, capture_output=True, check=False).returncode != 0, reason="no namespaces"),
]

# Arguments: a directory, and the command to run. /usr/include becomes a directory of links to all but the hidden files.
HIDE = """
set -eu
headers=$1/include
shift
mkdir -p "$headers"
mount --rbind /usr/include "$headers"
mount -t tmpfs none /usr/include
for file in "$headers"/*; do
    case ${file##*/} in
        zlib.h | zconf.h | zstd*.h | zdict.h | lz4*.h | openssl | infiniband | rdma | pcap* | liburing* | dpdk) ;;
        *) ln -s "$file" /usr/include/ ;;
    esac
done
for program in cmake ninja pkg-config pkgconf meson; do
    for directory in /usr/bin /usr/local/bin; do
        [ ! -e "$directory/$program" ] || mount --bind /dev/null "$directory/$program"
    done
done
exec env PKG_CONFIG_LIBDIR=/nonexistent "$@"
"""


def without_libraries(directory: Path, *command) -> list:
    """Return a command line that runs a command in a namespace without headers of libraries."""
    return ["unshare", "-rm", "sh", "-c", HIDE, "sh", directory, *command]


def run(*command) -> subprocess.CompletedProcess:
    """Run a command that has to succeed."""
    ended = processes.run(*command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Path:
    """Return the directory of programs of a virtual environment with the wheels and their dependencies."""
    directory = tmp_path_factory.mktemp("wheels")
    copy_sources(directory / "tree")
    wheels = build_wheels(directory / "tree", prefix=without_libraries(directory))
    assert [path.name.split("-")[0] for path in wheels] == ["acapella", "acapella_capture", "acapella_core"]
    assert [path.name.endswith("-py3-none-any.whl") for path in wheels] == [True, True, False]
    run(sys.executable, "-m", "venv", directory / "venv")
    pip = [directory / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--require-hashes", "-r", ROOT / "workflow" / "requirements.lock")
    run(*pip, "install", "--no-deps", "--no-index", *wheels)
    run(*pip, "check")
    return directory / "venv" / "bin"


@pytest.fixture(scope="module")
def captures(tmp_path_factory) -> dict[str, Path]:
    """Return the same capture, plain and with each compression."""
    directory, content = tmp_path_factory.mktemp("captures"), gzip.decompress(CAPTURES[1].read_bytes())
    packed = {"": content, ".gz": gzip.compress(content), ".zst": pa.compress(content, "zstd", asbytes=True)}
    packed[".lz4"] = bytes.fromhex("04224d18")  # magic number of a frame; the rest is not read
    return {suffix: write_file(directory / f"a.pcap{suffix}", data) for suffix, data in packed.items()}


def test_core_supports_gzip_and_zstd_and_is_linked_only_to_zlib(commands):
    findings = json.loads(run(commands / "acapella", "doctor", "--json").stdout)
    core = {finding["piece"]: finding["there"] for finding in findings if finding["group"] == "native core"}
    assert core == {"gzip": True, "zstd": True, "lz4": False, "aes": False}
    (library,) = (commands.parent / "lib").glob("python*/site-packages/acapella_core/_native.*.so")
    needed = run("readelf", "--dynamic", library).stdout
    assert "libz.so" in needed
    assert not any(name in needed for name in ("libzstd", "liblz4", "libcrypto", "libibverbs"))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_digests_have_the_same_bytes_as_those_of_a_core_with_all_libraries(suffix, commands, captures, tmp_path):
    for name, program in (("a", commands / "acapella"), ("b", BIN / "acapella")):
        run(program, "digest", "--engine", "native", captures[suffix], "-o", tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert (tmp_path / "a.flows.parquet").read_bytes() == (tmp_path / "b.flows.parquet").read_bytes()


def test_missing_codec_is_named_in_one_line(commands, captures, tmp_path):
    command = [commands / "acapella", "digest", "--engine", "native", captures[".lz4"], "-o", tmp_path / "a.parquet"]
    ended = processes.run(*command)
    assert (ended.returncode, ended.stderr) == (
        2,
        f"acapella: error: {captures['.lz4']}: compressed with lz4, but the core was built without lz4; decompress the "
        "file, or install liblz4-dev and run make setup\n",
    )


def test_anonymize_names_the_missing_library_in_one_line(commands, captures, tmp_path):
    run(commands / "acapella", "anonymize", "--new-key", tmp_path / "key")
    options = ["-o", tmp_path / "b.pcap", "--key-file", tmp_path / "key"]
    ended = processes.run(commands / "acapella", "anonymize", captures[""], *options)
    assert (ended.returncode, ended.stderr) == (
        2,
        "acapella: error: pseudonyms need AES, but the core was built without OpenSSL; install libssl-dev and run make "
        "setup\n",
    )


def test_kappa_reports_the_same_as_a_core_with_all_libraries(commands, captures):
    trials = [captures[""], captures[".gz"]]
    reports = [run(program, "kappa", "--json", *trials).stdout for program in (commands / "acapella", BIN / "acapella")]
    assert reports[0] == reports[1]
    assert json.loads(reports[0])


def test_collect_digest_index_and_sql_work_on_a_campaign(commands, tmp_path):
    """From a sample sheet to a query, without a config of the workflow."""
    acapella, campaign = commands / "acapella", tmp_path / "results"
    sheet = write_file(tmp_path / "samples.tsv", f"site\tport\tfile\nalpha\tp2\t{CAPTURES[1]}\n")
    settings = {"campaign": "one", "testbed": "files", "samples": str(sheet)}
    config = write_file(tmp_path / "config.json", json.dumps(settings))
    assert "alpha-p2: 78 frames" in run(acapella, "collect", campaign, "--config", config).stdout
    acap, flows = (new_directory(campaign / name) / "alpha-p2.parquet" for name in ("acap", "flows"))
    run(acapella, "digest", "--engine", "native", CAPTURES[1], "-o", acap, "--flows", flows)
    run(acapella, "campaign", "index", campaign)
    assert run(acapella, "sql", campaign, "select count(*) as n from frames").stdout == "n\n78\n"
