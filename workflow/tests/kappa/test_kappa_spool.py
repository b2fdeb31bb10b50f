"""A comparison that uses temporary files gives the same result as one in memory, and removes the files."""

import random
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_frames import disturbed, sent
from acapella_testing.new_files import new_directory

from acapella_core.errors import UserError
from acapella_core.kappa import compare


@pytest.mark.parametrize("memory_bytes", [1, 20_000, 400_000])
@pytest.mark.parametrize("kinds", [None, 40, 1])
def test_result_with_spooling_is_identical(tmp_path, kinds, memory_bytes):
    rng = random.Random(str(kinds))
    first = sent(4000, rng, kinds)
    second = disturbed(first, rng)
    rng.shuffle(second)  # frames out of time order, so that sorting goes through files as well
    files = [
        [write_pcap(tmp_path / "a.pcap", first)],
        [write_pcap(tmp_path / f"b{k}.pcap", second[k::2]) for k in range(2)],
        [write_pcap(tmp_path / "c.pcap", disturbed(first, rng)[:200])],
    ]
    spool = new_directory(tmp_path / "spool")
    options = {"pairs": [(0, 1), (0, 2), (1, 2)], "windows": 20}
    assert compare(files, memory_bytes=memory_bytes, spool=spool, **options) == compare(files, **options)
    assert not list(spool.iterdir())


def test_missing_spool_directory_is_an_error(tmp_path):
    path = write_pcap(tmp_path / "a.pcap", sent(40_000, random.Random(1)))
    with pytest.raises(UserError, match="gone"):
        compare([[path], [path]], pairs=[(0, 1)], memory_bytes=1, spool=tmp_path / "gone")


def test_any_trials_can_form_a_pair(tmp_path):
    path = write_pcap(tmp_path / "a.pcap", sent(50, random.Random(2)))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    found = compare([[path], [path]], pairs=[(0, 1), (1, 0)], memory_bytes=1, spool=tmp_path)["pairs"]
    assert found[0] == found[1] | {"a": 0, "b": 1}
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
