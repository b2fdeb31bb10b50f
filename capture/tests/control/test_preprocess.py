"""Anonymization of captures on their nodes: only anonymized captures are fetched."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.capture.fake_testbed import PCAP, FakeTestbed, completed
from acapella_testing.capture.small_disks import mount_command
from acapella_testing.frames import pcap_files
from acapella_testing.new_files import write_file
from acapella_testing.processes import executable, run
from acapella_testing.release_records import write_key
from acapella_testing.requirements import require, require_built

from acapella_capture.control import coordinator
from acapella_capture.control.preprocess import NOTE, PROGRAM, anonymizer_program, preprocess, vendor_lists
from acapella_capture.settings import PreprocessSettings, parse_settings
from acapella_capture.testbeds.base import CompletedProgram
from acapella_core.errors import UserError

pytestmark = pytest.mark.usefixtures("fake_tcpdump")
SECRET = b"payload that may not leave"
ADDRESS = bytes((203, 0, 113, 77))


def ethernet_frame() -> bytes:
    """Return a pcap record with UDP in IPv4 in Ethernet."""
    data = bytes.fromhex("c3500009") + (8 + len(SECRET)).to_bytes(2) + bytes(2) + SECRET
    ip = bytes.fromhex("4500") + (20 + len(data)).to_bytes(2) + bytes.fromhex("0001000040110000") + 2 * ADDRESS
    return pcap_files.record(10**9, bytes.fromhex("0200000000010200000000020800") + ip + data)


class NodeTestbed(FakeTestbed):
    """A testbed whose node has its files in a local directory; mv, rm, sha256sum and acapella run on this machine."""

    def __init__(self, directory: Path):
        super().__init__("p")
        self.directory = directory

    def path_on_node(self, node, file):
        path = self.directory / file
        if not path.exists():
            path.write_bytes(PCAP + ethernet_frame())
        return str(path)

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        if argv[0] not in ("mv", "rm", "sha256sum") and not argv[0].endswith("acapella"):
            return super().run(node, argv, timeout_s=timeout_s, stdin=stdin)
        return completed(argv, timeout=timeout_s) if shutil.which(argv[0]) else CompletedProgram(127, "", "")

    def fetch(self, node, path, target):
        self.fetched.append(path)
        source = self.directory / path
        write_file(target, source.read_bytes() if source.exists() else b"")


def taken(tmp_path: Path, **preprocess) -> tuple[list, Path]:
    """Collect one sample; return the results, and the directory raw/."""
    (tmp_path / "node").mkdir()
    config = {"testbed": "local", "capture": {"sample_s": 0.01}, "collect": {"watch_s": 1}, "preprocess": preprocess}
    done = list(coordinator.collect(NodeTestbed(tmp_path / "node"), parse_settings(config), tmp_path / "c"))
    return done, tmp_path / "c" / "raw"


@pytest.fixture
def key(tmp_path) -> Path:
    return write_key(tmp_path / "key", bytes(range(32)))


@pytest.fixture
def settings(key) -> PreprocessSettings:
    """Return settings that anonymize captures with the key."""
    return PreprocessSettings(anonymize=True, key_file=str(key), macs="replace", program=None)


def captured(raw: Path) -> bytes:
    """Return all captures in raw/."""
    return b"".join(path.read_bytes() for path in raw.glob("*.pcap"))


def test_fetched_captures_are_anonymized(tmp_path, key):
    (manifest, *_), raw = taken(tmp_path, anonymize=True, key_file=str(key), macs="blank")
    assert manifest["frames_captured"] == 1
    assert NOTE in manifest["notes"]
    assert len(captured(raw)) == len(PCAP) + 16 + 14 + 20 + 8
    assert SECRET not in captured(raw)
    assert ADDRESS not in captured(raw)
    assert captured(raw)[40:52].hex() == 2 * "020000000000"


def test_captures_are_fetched_unchanged_without_anonymization(tmp_path):
    (manifest, *_), raw = taken(tmp_path)
    assert NOTE not in manifest["notes"]
    assert SECRET in captured(raw)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"program": "/nowhere/acapella"}, "no acapella on the node"),
        ({"key_file": "/nowhere/key"}, "cannot read the key"),
    ],
)
def test_capture_is_not_fetched_if_anonymization_fails(tmp_path, key, change, reason):
    (failure, *_), raw = taken(tmp_path, **{"anonymize": True, "key_file": str(key), **change})
    assert reason in failure.why
    assert "not fetched" in failure.why
    assert not captured(raw)


def test_capture_and_incomplete_output_of_a_killed_program_are_removed_from_the_node(tmp_path, key):
    """Later samples need the space."""
    program = executable(tmp_path / "acapella", '#!/bin/sh\necho part > "$4"\nkill -9 $$\n')
    (failure, *_), raw = taken(tmp_path, anonymize=True, key_file=str(key), program=str(program))
    assert "not fetched" in failure.why
    assert not captured(raw)
    assert (tmp_path / "node").is_dir()
    assert not list((tmp_path / "node").glob("*.pcap*"))


@pytest.mark.parametrize("out", ["regular", "device"])
def test_uploaded_program_removes_incomplete_output_but_no_device(tmp_path, key, out):
    require_built(PROGRAM, "make setup-fabric builds it")
    target, limit = tmp_path / "out.pcap", ["prlimit", "--fsize=8192"]
    if out == "device":
        target.symlink_to("/dev/full")
        limit = []
    source = write_file(tmp_path / "in.pcap", PCAP + 5000 * ethernet_frame())
    # Python and its child processes ignore SIGXFSZ
    done = run(*limit, Path(sys.executable).with_name(PROGRAM), source, target, key, "replace", restore_signals=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{target}: cannot write: " in done.stderr
    assert target.is_symlink() == (out == "device")
    assert Path("/dev/full").is_char_device()
    assert out == "device" or not target.exists()


def test_key_readable_by_others_is_rejected_on_the_node(tmp_path, key):
    key.chmod(0o644)
    (failure, *_), raw = taken(tmp_path, anonymize=True, key_file=str(key))
    assert "other users can" in failure.why
    assert not captured(raw)


def test_first_error_is_reported_for_an_unreachable_node(tmp_path, settings):
    class Lost(NodeTestbed):
        def run(self, node, argv, *, timeout_s=30, stdin=""):
            if argv[0] == "rm":
                raise UserError("node n: no answer")
            return CompletedProgram(1, "", "acapella: error: unreadable key")

    with pytest.raises(UserError, match=r"not anonymized, so not fetched: .*unreadable key"):
        preprocess(Lost(tmp_path), "n", "c.pcap", settings)


def test_anonymize_without_a_key_is_a_config_error():
    with pytest.raises(UserError, match=r"preprocess\.key_file: missing"):
        parse_settings({"testbed": "local", "preprocess": {"anonymize": True}})


class FullDisk(NodeTestbed):
    """A testbed whose node has a separate file system that is almost full."""

    def __init__(self, directory: Path, inside: list[str], name: str):
        super().__init__(directory)
        self.inside, self.name = inside, name

    def path_on_node(self, node, file):
        return str(self.directory / file)

    def run(self, node, argv, *, timeout_s=30, stdin=""):
        return completed([*self.inside, *argv], timeout=timeout_s)

    def put(self, node, source, file):
        done = self.run(node, ["cp", "-p", str(source), self.path_on_node(node, file)])
        if done.status != 0:
            raise UserError(done.stderr.strip())

    def fill(self, free_bytes: int) -> None:
        """Fill the disk except for ``free_bytes``."""
        available = int(self.run("", ["df", "--output=avail", "-B1", str(self.directory)]).stdout.split()[-1])
        script = f"head -c {available - free_bytes} /dev/zero > {self.directory}/filler"
        assert self.run("", ["sh", "-c", script]).status == 0

    def files(self) -> set[str]:
        return set(self.run("", ["ls", "-A", str(self.directory)]).stdout.split()) - {"lost+found", "filler"}


@contextlib.contextmanager
def small_disk_or_skip(kind: str, directory: Path):
    """Mount a file system of 24 MB at `directory` in a private namespace; yield the command prefix that enters it."""
    script = f"{mount_command(kind, directory, '24M')} && echo mounted && read line; umount {directory}"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", script], text=True, **pipes)
    try:
        require(holder.stdout.readline() == "mounted\n", f"no private {kind} mount here")
        yield ["nsenter", f"--target={holder.pid}", "--mount"]
    finally:
        holder.communicate()  # ends when its input ends


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"])
@pytest.mark.parametrize("name", ["local", "fabric"])  # acapella on the node, and the uploaded program
def test_full_disk_keeps_the_capture_on_the_node(tmp_path, settings, name, disk):
    if name == "fabric":
        require_built(PROGRAM, "make setup-fabric builds it")
    capture = write_file(tmp_path / "c.pcap", PCAP + 5000 * ethernet_frame())
    with small_disk_or_skip(disk, tmp_path / "node") as inside:
        node = FullDisk(tmp_path / "node", inside, name)
        node.put("n", capture, "c.pcap")
        if name == "fabric":
            for each in (anonymizer_program(), *vendor_lists()):
                node.put("n", each, each.name)
        before = node.files()
        node.fill(64 << 10)
        with pytest.raises(UserError, match=r"^node n: not anonymized, so not fetched: .*c\.pcap\.anonymized: ") as why:
            preprocess(node, "n", "c.pcap", settings)
        assert "No space left on device; free some space" in str(why.value)
        assert "\n" not in str(why.value)
        assert node.files() == before
        assert node.run("n", ["cmp", str(capture), node.path_on_node("n", "c.pcap")]).status == 0
        assert node.run("n", ["rm", str(node.directory / "filler")]).status == 0
        assert preprocess(node, "n", "c.pcap", settings) == [NOTE]  # succeeds once there is space
        assert node.files() == before
        assert node.run("n", ["grep", "-c", SECRET.decode(), node.path_on_node("n", "c.pcap")]).stdout == "0\n"
