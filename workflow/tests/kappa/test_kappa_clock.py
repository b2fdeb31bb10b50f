"""Clock grids that `acapella kappa` detects, with and without an offset; declared resolutions; implausible times."""

import itertools
import random
import struct
from pathlib import Path

import pytest
from acapella_testing.frames.pcapng_files import SECTION, interface, packet_block
from acapella_testing.frames.trial_captures import START_NS, codes, kappa, packet, pair, steady, texts, write
from acapella_testing.new_files import write_file

from acapella.cli.main import main

LAST_NS = 2**32 * 10**9 - 2  # the last plausible time, in the year 2106


def write_ng(path: Path, stamps: list[tuple[int, int]], resolutions: list[int]) -> Path:
    """Write a pcapng file with an interface for each if_tsresol; ``stamps`` are (interface, units)."""
    blocks = [SECTION, *(interface(options=struct.pack("<HHB3xHH", 9, 1, each, 0, 0)) for each in resolutions)]
    blocks += [packet_block(at, units, packet(number)) for number, (at, units) in enumerate(stamps)]
    return write_file(path, b"".join(blocks))


def jittered(count: int, run: int, jitter_ns: int = 50) -> list[int]:
    """Return the times of a run on a fine clock."""
    draw = random.Random(run)
    return sorted(START_NS + n * 10_007 + draw.randrange(jitter_ns + 1) for n in range(count))


def on_grid(times: list[int], step_ns: int, offset_ns: int) -> list[int]:
    """Return offsets from START_NS of times rounded to a grid, for write()."""
    return [ns // step_ns * step_ns + offset_ns - START_NS for ns in times]


@pytest.mark.parametrize(
    ("grid", "expected", "message"),
    [
        ((1000, 0), "coarse_clock", "multiples of 1 µs"),
        ((1000, 123), "coarse_clock", "on a grid of 1 µs"),
        ((4000, 77), "coarse_clock", "on a grid of 4 µs"),
        ((512, 0), "coarse_within", "on a grid of 512 ns"),
        ((100, 0), "coarse_within", "multiples of 100 ns"),
        ((100, 7), "coarse_within", "on a grid of 100 ns"),
        ((16, 3), "coarse_within", "on a grid of 16 ns"),
        ((10, 0), None, None),  # equal to the smallest bound, whose share is exact
        ((8, 0), None, None),
        ((1, 0), None, None),
    ],
)
def test_coarse_grid_is_reported_for_any_offset(compared, grid, expected, message):
    found = compared(*(on_grid(jittered(400, k), *grid) for k in range(2)))
    assert codes(found) == [expected] * 2 * bool(expected)
    for name, text in zip("ab", texts(found, expected), strict=False):
        assert f"in {name}.pcap" in text
        assert message in text


@pytest.mark.parametrize(("bound", "expected"), [("7", ["coarse_within"] * 2), ("8", []), ("0", ["coarse_within"] * 2)])
def test_smallest_bound_determines_the_warning(compared, bound, expected):
    assert codes(compared(*(on_grid(jittered(400, k), 8, 3) for k in range(2)), "--within", bound, "1000")) == expected


def test_equal_gaps_of_a_fine_clock_are_not_a_grid(compared):
    assert codes(compared(*(on_grid(jittered(400, k), 1, 0) for k in range(2)), "--within", "0")) == []


@pytest.mark.parametrize(
    ("resolution", "expected", "grid"),
    [(0x80 | 10, "coarse_clock", 976_562), (0x80 | 20, "coarse_within", 953), (6, "coarse_clock", 1000),
     (7, "coarse_within", 100), (0x80 | 27, None, 7), (9, None, 1), (12, None, 1), (0x80 | 40, None, 1)],
)  # fmt: skip
def test_declared_resolution_of_an_interface_is_used(tmp_path, capsys, resolution, expected, grid):
    per_second = 2 ** (resolution & 127) if resolution & 128 else 10**resolution
    runs = [[ns - START_NS for ns in jittered(100, run)] for run in range(2)]
    stamps = [[(0, (ns * 199 + 10**15) * per_second // 10**9) for ns in run] for run in runs]
    result = kappa(capsys, *[write_ng(tmp_path / f"{n}.pcapng", each, [resolution]) for n, each in enumerate(stamps)])
    assert codes(result["pairs"][0]) == [expected] * 2 * bool(expected)
    assert result["trials"][0]["files"][0]["grid_ns"] == grid


@pytest.mark.parametrize(("interfaces", "expected"), [((0, 1), True), ((0, 0), False)])
def test_coarsest_interface_with_packets_is_reported(tmp_path, capsys, interfaces, expected):
    times = jittered(100, 1)
    stamps = [
        (interface, ns // 1000 if interface else ns) for interface, ns in zip(interfaces * 50, times, strict=True)
    ]
    mixed = write_ng(tmp_path / "b.pcapng", stamps, [9, 6])
    found = pair(capsys, write(tmp_path / "a.pcap", [ns - START_NS for ns in times]), mixed)
    assert ("on a grid of 1 µs" in " ".join(texts(found, "coarse_clock"))) == expected


def changing(changes: int) -> list[int]:
    """Return offsets whose gap changes this number of times."""
    return [0, *itertools.accumulate(20_000 if min(n, changes) % 2 else 21_000 for n in range(40))]


@pytest.mark.parametrize(
    ("offsets", "coarse"),
    [
        *(pytest.param(steady(count, 10_000), False, id=f"constant period, {count}") for count in (1, 2, 3, 17, 100)),
        pytest.param([n * 1_237 for n in range(200) if n % 7], False, id="constant period with losses"),
        pytest.param([n * 20_000 + n % 2 * 1_000 for n in range(16)], False, id="15 gaps"),
        pytest.param([n * 20_000 + n % 2 * 1_000 for n in range(17)], True, id="16 gaps"),
        pytest.param(changing(3), False, id="3 changes of the gap"),
        pytest.param(changing(4), True, id="4 changes of the gap"),
    ],
)
def test_minimum_number_of_gaps_and_changes_shows_a_grid(compared, offsets, coarse):
    assert codes(compared(offsets, offsets)) == ["coarse_clock"] * 2 * coarse


@pytest.mark.parametrize("offset_ns", [0, 123])
def test_files_of_one_packet_show_a_grid_together(tmp_path, capsys, offset_ns):
    offsets = on_grid(jittered(40, 1, 5_000), 1000, offset_ns)
    files = [write(tmp_path / f"{n}.pcap", [ns], [n]) for n, ns in enumerate(offsets)]
    fine = write(tmp_path / "fine.pcap", [ns - START_NS for ns in jittered(40, 2)])
    (text,) = texts(pair(capsys, fine, ",".join(map(str, files))), "coarse_clock")
    assert "trial B is coarse: all its timestamps are on a grid of" in text


def test_single_packet_of_a_coarse_file_is_not_reported(tmp_path, capsys):
    trial = write_ng(tmp_path / "one.pcapng", [(0, START_NS // 1000)], [6])
    assert codes(pair(capsys, trial, trial)) == []


@pytest.mark.parametrize("far_ns", [LAST_NS + 1, 2**63 - 1, 2**64 - 1])
def test_file_with_only_implausible_times_is_an_error(tmp_path, capsys, far_ns):
    far = write_ng(tmp_path / "far.pcapng", [(0, far_ns), (0, far_ns)], [9])
    assert main(["kappa", str(far), str(far)]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    assert message.err.count("\n") == 1
    assert "far.pcapng: its 2 frames have timestamps outside the years 1970 to 2106" in message.err


def test_last_plausible_time_is_accepted(tmp_path, capsys):
    far = write_ng(tmp_path / "far.pcapng", [(0, LAST_NS - 9), (0, LAST_NS - 5), (0, LAST_NS + 5)], [9])
    assert pair(capsys, far, far, "--to", "6ns")["n_common"] == 2
    last = write_ng(tmp_path / "last.pcapng", [(0, LAST_NS - 9), (0, LAST_NS)], [9])
    assert pair(capsys, last, last)["duration_a_ns"] == 9
