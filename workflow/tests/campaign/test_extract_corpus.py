"""Extracts frames of public captures, including malformed ones.

The extracted frames equal those of editcap, and the frame positions in the acap take at most two bytes per frame.
"""

import pytest
from acapella_testing.oracles.naive_captures import packets
from acapella_testing.processes import run

from acapella.cli.main import main
from acapella.digest.acap_files import POSITIONS_KEY, metadata_of

EVERY_NTH = 20  # every 20th capture of a directory is tested
EXTRA_BYTES = 64  # allowed for captures of fewer than 1,000 frames


def ranges_of(frames: int) -> str:
    """Return a selection of the first three and the last two frames, and of frames at regular intervals in between."""
    numbers = {1, 2, 3, frames - 1, frames, *range(5, frames, max(3, frames // 40))}
    return ",".join(str(frame) for frame in sorted(numbers) if 1 <= frame <= frames)


def editcap(capture, target, ranges: str) -> None:
    """Copy frames with editcap, whose exit code is not 0 if the capture is damaged."""
    run("editcap", "-F", "pcapng", "-r", capture, target, *ranges.split(","))


def digested(capture, directory) -> dict | None:
    """Digest a capture and return the metadata; None if it cannot be digested."""
    acap = directory / "t.acap.parquet"
    code = main(["digest", str(capture), "-o", str(acap), "--engine", "native", "--damaged", "keep"])
    return metadata_of(acap) if code == 0 else None


@pytest.mark.soak
@pytest.mark.parametrize("part", ["ndpi", "tcpdump"])
def test_frames_of_public_captures_equal_those_of_editcap(corpus, tmp_path, part):
    compared = damaged = 0
    cut = tmp_path / "cut.pcap"
    for capture in (path for whole in sorted((corpus / part).iterdir())[::EVERY_NTH] for path in (whole, cut)):
        if capture != cut:
            cut.write_bytes(capture.read_bytes()[:-3])  # the next capture: a truncated copy
        metadata = digested(capture, tmp_path)
        if not metadata or not metadata["frames"]:
            continue
        ranges = ranges_of(metadata["frames"])
        arguments = [str(capture), "--acap", str(tmp_path / "t.acap.parquet"), "--frames", ranges]
        assert main(["extract", *arguments, "-o", str(tmp_path / "ours.pcapng")]) == 0, capture
        editcap(capture, tmp_path / "theirs.pcapng", ranges)
        ours = [packet._replace(time_s=packet.time_s or 0) for packet in packets(tmp_path / "ours.pcapng")]
        assert ours == packets(tmp_path / "theirs.pcapng"), capture  # editcap writes time 0 if there is none
        compared += 1
        damaged += metadata["file_issue"] is not None
    assert compared - damaged >= 20
    assert damaged >= 10


def test_positions_have_at_most_two_bytes_per_frame(corpus, tmp_path):
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    sizes = {}
    for capture in [path for part in ("ndpi", "tcpdump") for path in sorted((corpus / part).iterdir())[::EVERY_NTH]]:
        if metadata := digested(capture, tmp_path):
            keys = pq.read_metadata(tmp_path / "t.acap.parquet").metadata
            sizes[capture.name] = (len(keys.get(POSITIONS_KEY.encode(), b"")), metadata["frames"])
    for name, (size, frames) in sizes.items():
        assert size <= 2 * frames + (EXTRA_BYTES if frames < 1000 else 0), name
        assert size or frames < 40, name
    assert max(frames for _, frames in sizes.values()) >= 1000
