"""Digests by acapella-digest, as on the node that recorded a capture, compared with those of engine native here."""

import gzip
import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from acapella_testing.frames import pcapng_files, traces
from acapella_testing.frames.pcap_files import header, record, write_pcap
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.runs.digest_run import START, Digest, frames
from acapella_testing.runs.workflow_run import CAPTURES
from acapella_testing.soak import SOAK

from acapella.digest import node_digest
from acapella.digest.acap_files import BATCH_ROWS, FLOW_BATCH_ROWS, metadata_of
from acapella.digest.acap_format import node_digest_record

PROGRAM = Path(sys.executable).with_name("acapella-digest")
ALTERED = 300 if SOAK else 100  # files with a wrong bit
SITE, PORT = "STAR", 'HundredGigE0/0/0/5 "x"'
SITE_AND_PORT = (f"--site={SITE}", f"--port={PORT}")

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"no {PROGRAM.name} here: build/digest.log")


def on_node(capture: Path, out: Path, **changes) -> subprocess.CompletedProcess:
    """Run the program as a collection does."""
    record, lists = node_digest_record()
    vendors = [write_file(out.parent / f"vendors-{name}", content) for name, content in lists.items()]
    text = json.dumps(record | {"site": SITE, "port": PORT} | changes)
    return run(PROGRAM, capture, out, SITE, PORT, 1 << 30, text, *vendors)


def many_flows() -> list[tuple[int, bytes]]:
    """Return more frames than a batch of the frame table has, of more flows than a batch of the flow table."""
    _, first = frames(3)[2]
    at = first.index(b"\x0a\x00\x00\x02") + 4  # source port of the segment
    flows = [first[:at] + struct.pack(">H", 1024 + i) + first[at + 2 :] for i in range(FLOW_BATCH_ROWS + 10)]
    return [(START + i, flows[i % len(flows)]) for i in range(BATCH_ROWS + 10)]


def captures(directory: Path) -> dict[str, Path]:
    """Return captures by name."""
    mixed = write_pcap(directory / "mixed.pcap", traces.busy_port(), 200)
    found = [
        *(write_file(directory / path.stem, gzip.decompress(path.read_bytes())) for path in CAPTURES.glob("*.pcap.gz")),
        *(mixed, pcapng_files.write_stamped(directory / "some.pcapng", frames(50))),
        pcapng_files.write_untimed(directory / "untimed.pcapng", [frame for _, frame in frames(5)]),
        *(write_pcap(directory / "empty.pcap", []), write_pcap(directory / "many.pcap", many_flows(), 100)),
        write_file(directory / "truncated.pcap", mixed.read_bytes()[:-7]),
        write_file(directory / "damaged.pcap", header() + record(START, frames(1)[0][1]) + b"\xff" * 16 + bytes(400)),
    ]
    return {path.stem: path for path in found}


def result(digest: Digest, source: Path) -> tuple[int, bytes, bytes]:
    """Digest a file and return the exit code and both Parquet files."""
    return digest(source, *SITE_AND_PORT), digest.acap.read_bytes(), digest.flows.read_bytes()


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return results here and from the node, by capture."""
    directory, pairs = tmp_path_factory.mktemp("captures"), {}
    for name, capture in captures(directory).items():
        columns, digest = directory / f"{name}.columns", Digest(tmp_path_factory.mktemp(name))
        ended = on_node(capture, columns)
        assert (ended.returncode, ended.stderr) == (0, ""), name
        pairs[name] = (result(digest, capture), result(digest, columns))
    return pairs


def test_files_equal_a_local_digest_of_the_capture(compared):
    assert len(compared) > 8
    assert [name for name, (here, node) in compared.items() if here != node] == []
    assert {name for name, (here, _) in compared.items() if here[0]} == {"damaged"}


def test_compressed_file_gives_the_same_digest(tmp_path, digest):
    columns = made_on_node(tmp_path, 40)
    assert result(digest, columns) == result(digest, compressed(columns))


def made_on_node(directory: Path, count: int, **changes) -> Path:
    """Return the file that the program writes for a capture of ``count`` frames."""
    columns = directory / "a.columns"
    assert on_node(write_pcap(directory / "a.pcap", frames(count)), columns, **changes).returncode == 0
    return columns


def compressed(path: Path) -> Path:
    """Compress a file with zstd; return the path of the compressed one."""
    packed = path.with_name(f"{path.name}.zst")
    with pa.CompressedOutputStream(str(packed), "zstd") as out:
        out.write(path.read_bytes())
    return packed


def test_program_prints_the_facts_of_the_capture(tmp_path):
    facts = json.loads(on_node(write_pcap(tmp_path / "a.pcap", frames(40), 200), tmp_path / "a.columns").stdout)
    assert facts["frames"] == 40 and facts["snaplen"] == 200 and facts["file_issue"] is None
    assert facts["longest_frame_bytes"] == max(len(frame) for _, frame in frames(40))


@pytest.mark.parametrize(
    ("out", "memory", "status", "reason"),
    [
        ("/dev/full", 1 << 30, 75, "/dev/full: No space left on device; free some space"),
        ("{}/a.columns", 1, 75, "2 header stacks need 1 MiB at frame 40; the limit is 0 MiB"),
        ("{}/none/a.columns", 1 << 30, 2, "No such file or directory"),
    ],
)
def test_failure_is_one_line_and_leaves_no_file(out, memory, status, reason, tmp_path):
    capture, path = write_pcap(tmp_path / "a.pcap", frames(40)), Path(out.format(tmp_path))
    ended = run(PROGRAM, capture, path, SITE, PORT, memory, "{}")
    assert ended.returncode == status and ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("acapella-digest: error: ") and reason in ended.stderr
    assert not path.is_file()


@pytest.mark.parametrize(
    ("options", "changes", "reason"),
    [
        (("--site=STAR", "--port=other"), {}, "was digested on its node with port"),
        ((*SITE_AND_PORT, "--engine=hybrid"), {}, "was digested on its node with engine native; use --engine native"),
        (
            SITE_AND_PORT,
            {"version": "0.0.1", "acap_format": 1},
            "was digested on its node by acapella 0.0.1 (format 1)",
        ),
        (SITE_AND_PORT, {"version": None}, "was digested on its node by acapella None"),
    ],
)
def test_different_options_or_format_are_an_error(options, changes, reason, digest, capsys):
    assert digest(made_on_node(digest.directory, 4, **changes), *options) == 2
    printed = capsys.readouterr().err
    assert reason in printed and printed.count("\n") == 1
    assert not digest.acap.exists() and not digest.flows.exists()


def test_digest_of_a_different_version_with_the_same_format_is_accepted_with_its_version(tmp_path, digest):
    assert digest(made_on_node(tmp_path, 4, version="0.0.1"), *SITE_AND_PORT) == 0
    assert {metadata_of(path)["version"] for path in (digest.acap, digest.flows)} == {"0.0.1"}


def test_limit_of_decompression_applies(tmp_path, digest, capsys):
    assert digest(made_on_node(tmp_path, 40), *SITE_AND_PORT, "--max-decompressed=1K") == 2
    assert "has more bytes than --max-decompressed permits" in capsys.readouterr().err


@pytest.mark.soak
def test_limit_of_the_compression_ratio_applies(tmp_path, digest, capsys, monkeypatch):
    monkeypatch.setattr(node_digest, "FREE_OF_RATIO", 0)
    columns = made_on_node(tmp_path, 4000)
    assert digest(columns, *SITE_AND_PORT, "--max-ratio=1") == 0
    assert digest(compressed(columns), *SITE_AND_PORT, "--max-ratio=1") == 2
    assert "has a higher compression ratio than --max-ratio permits" in capsys.readouterr().err


def test_block_longer_than_any_batch_is_an_error(tmp_path, digest, capsys):
    columns = made_on_node(tmp_path, 4)
    before, kind, after = columns.read_bytes().partition(b"frames  ")
    columns.write_bytes(before + kind + struct.pack("<Q", (256 << 20) + 8) + after[8:])
    assert digest(columns, *SITE_AND_PORT) == 2
    assert "a block has an unknown kind or length" in capsys.readouterr().err


@pytest.mark.parametrize("key", node_digest.COMPARED)
def test_facts_that_differ_from_the_tables_are_an_error(tmp_path, digest, capsys, key):
    columns = made_on_node(tmp_path, 40)
    before, kind, block = columns.read_bytes().partition(b"facts   ")
    (length,) = struct.unpack_from("<Q", block)
    facts = json.loads(block[8 : 8 + length])
    text = json.dumps(facts | {key: facts[key] + 1}).encode()
    columns.write_bytes(before + kind + struct.pack("<Q", len(text)) + text + bytes(-len(text) % 8))
    assert digest(columns, *SITE_AND_PORT) == 2
    assert f"its tables and its facts differ in {key}" in capsys.readouterr().err
    assert not digest.acap.exists()


@pytest.mark.soak
def test_truncated_or_altered_file_is_an_error_in_one_line_or_valid(tmp_path, digest, capsys):
    """A node is not trusted: whatever its file contains, it is accepted, or rejected in one line without output."""
    columns, draw = made_on_node(tmp_path, 30), random.Random(1)
    original = columns.read_bytes()
    altered = [original[: draw.randrange(8, len(original))] for _ in range(ALTERED // 8)]
    for _ in range(ALTERED):
        content = bytearray(original)
        content[draw.randrange(8, len(content))] ^= 1 << draw.randrange(8)
        altered.append(bytes(content))
    rejected = 0
    for content in altered:
        columns.write_bytes(content)
        status = digest(columns, *SITE_AND_PORT)
        printed = capsys.readouterr().err
        rejected += status == 2
        assert status == 0 or (status == 2 and printed.count("\n") == 1 and not digest.acap.exists()), printed
        digest.acap.unlink(missing_ok=True)
        digest.flows.unlink(missing_ok=True)
    assert rejected > ALTERED / 3
