"""`acapella kappa` matches the naive reference on random trials with loss, duplication, reordering and jitter."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.pcapng_files import write_stamped
from acapella_testing.frames.traces import underlay
from acapella_testing.frames.trial_captures import (
    START_NS,
    arp,
    isl,
    kappa,
    llc,
    packet,
    packet_6,
    pair,
    service_snap,
    snap,
    steady,
    texts,
    write,
)
from acapella_testing.oracles import naive_kappa
from acapella_testing.soak import SOAK
from hypothesis import given, settings
from hypothesis import strategies as st

EXACT = ("U", "O", "O_published", "O_kendall", "L", "L_offset_removed", "I")
ROOTS = ("kappa", "kappa_published")


EXAMPLES = 20 if SOAK else 5
SHORT = st.integers(0, 40)
EDGE_NS = 1 << 31  # smaller differences are kept in 32 bits
LONG = st.one_of(SHORT, st.integers(EDGE_NS - 2, EDGE_NS + 2), st.integers(0, 3 * EDGE_NS))


@st.composite
def trials(draw, gap=SHORT) -> list[tuple[int, int]]:
    """Return (offset in ns, number) of each packet of a trial of up to 60 packets, in the order of the file."""
    numbers = list(range(draw(st.integers(0, 60))))
    lost = draw(st.sets(st.sampled_from(numbers), max_size=8)) if numbers else set()
    numbers = [n for n in numbers if n not in lost]
    for _ in range(draw(st.integers(0, 4))):  # move a burst
        begin, size, to = (draw(st.integers(0, 60)) for _ in range(3))
        burst = numbers[begin : begin + size % 9]
        del numbers[begin : begin + size % 9]
        numbers[to:to] = burst
    for number in draw(st.lists(st.sampled_from(numbers), max_size=4)) if numbers else ():
        numbers.insert(draw(st.integers(0, len(numbers))), number)
    gaps = draw(st.lists(gap, min_size=len(numbers), max_size=len(numbers)))
    return list(zip(itertools.accumulate(gaps), numbers, strict=True))


def frame(number: int) -> bytes:
    """Return a packet of one of several kinds; some have no IP header."""
    padded = (lambda n: llc(n, padding=n % 7), lambda n: snap(n, padding=n % 7))
    encapsulated = (service_snap, lambda n: isl(packet_6(n)), lambda n: isl(llc(n, padding=n % 7)))
    kinds = (packet, packet_6, arp, lambda n: packet(n, trailer=b"x" * (n % 5)), *padded, *encapsulated)
    return kinds[number % len(kinds)](number)


def check(found: dict, expected: dict) -> None:
    """Check every value of a pair; components are the doubles nearest to the exact ones."""
    for name in EXACT:
        assert found[name] == (None if expected[name] is None else float(expected[name])), name
    for name in ROOTS:
        if expected[name] is None:
            assert found[name] is None
        else:
            assert found[name] == pytest.approx(expected[name], rel=1e-14, abs=1e-15), name
    for name in expected.keys() - {*EXACT, *ROOTS}:
        assert close(found[name], expected[name]), name


def close(found, value) -> bool:
    """Return whether values are equal except for the last bits of a float."""
    if isinstance(value, dict):
        return all(close(found[key], inner) for key, inner in value.items())
    if isinstance(value, float):
        return found is not None and math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9)
    return found == value


def check_windows(found: dict, a: list, b: list) -> None:
    """Check every window, and that each packet is in one window."""
    for name in ("n_a", "n_b", "n_common"):
        assert sum(window[name] for window in found["timeline"]) == found[name]
    for window in found["timeline"]:
        for name, value in naive_kappa.window(a, b, window["from_ns"], window["to_ns"]).items():
            if isinstance(value, Fraction):
                assert window[name] == float(value), (name, window)
            else:
                assert close(window[name], value), (name, window)


@settings(max_examples=3 * EXAMPLES)
@given(trials(), trials(), st.sampled_from([1, 2, 7, 50]))
def test_random_trials_match_the_naive_reference(tmp_path, capsys, a, b, windows):
    check_trials(tmp_path, capsys, (a, b), (0, 10, 35), windows)


@settings(max_examples=2 * EXAMPLES)
@given(trials(LONG), trials(LONG), st.sampled_from([1, 7]))
def test_random_trials_that_differ_by_seconds_match_the_naive_reference(tmp_path, capsys, a, b, windows):
    """The differences are slightly smaller and larger than those kept in 32 bits."""
    check_trials(tmp_path, capsys, (a, b), (10, EDGE_NS), windows)


def check_trials(tmp_path, capsys, trials: tuple, within_ns: tuple[int, ...], windows: int) -> None:
    """Check the components and windows of two trials."""
    paths = [write_pcap(tmp_path / f"{name}.pcap", stamped(trial)) for name, trial in zip("ab", trials, strict=True)]
    found = pair(capsys, *paths, "--within", *map(str, within_ns), "--windows", windows)
    naive = naive_kappa.read_trials([[path] for path in paths])
    check(found, naive_kappa.compare(*naive, within_ns=within_ns))
    check_windows(found, *naive)


def reference(*paths: Path) -> dict:
    """Return the naive result of two trials of one file each."""
    return naive_kappa.compare(*naive_kappa.read_trials([[path] for path in paths]))


@pytest.mark.parametrize("far_ns", [7_258_118_400 * 10**9, -631_152_000 * 10**9], ids=["2200", "1950"])
@pytest.mark.parametrize("place", [0, 99])
def test_frame_with_implausible_time_is_excluded(tmp_path, capsys, far_ns, place):
    """Kappa is that of the trial without the frame; with the wrong timestamp, L and I would be nearly 0."""
    stamps = [(START_NS + ns + ns % 577, packet(number)) for number, ns in enumerate(steady(100))]
    a = write(tmp_path / "a.pcap", steady(100))
    b = write_stamped(tmp_path / "b.pcapng", [*stamps[:place], (far_ns, packet(place)), *stamps[place + 1 :]])
    without = write_pcap(tmp_path / "c.pcap", [*stamps[:place], *stamps[place + 1 :]])
    document = kappa(capsys, a, b)
    (found,) = document["pairs"]
    check(found, reference(a, without))
    assert [trial["implausible_times"] for trial in document["trials"]] == [0, 1]
    (text,) = texts(found, "implausible_times")
    assert text.startswith("1 frame of trial B dated outside the years 1970 to 2106: excluded")


@settings(max_examples=EXAMPLES)
@given(trials(), trials(), st.integers(20, 70))
def test_random_truncated_trials_match_the_naive_reference(tmp_path, capsys, a, b, snaplen):
    paths = [write_pcap(tmp_path / "a.pcap", stamped(a), snaplen), write_pcap(tmp_path / "b.pcap", stamped(b))]
    check(pair(capsys, *paths), reference(*paths))


@settings(max_examples=EXAMPLES)
@given(trials(), trials(), st.integers(1, 4))
def test_random_trials_of_several_files_match_the_naive_reference(tmp_path, capsys, a, b, files):
    own = [[(START_NS, packet(1_000 + k))] for k in range(files)]  # a different packet, so that no two files are equal
    paths = [write_pcap(tmp_path / f"b{k}.pcap", own[k] + stamped(b[k::files])) for k in range(files)]
    single = write_pcap(tmp_path / "a.pcap", stamped(a))
    naive = naive_kappa.read_trials([[single], paths])
    check(pair(capsys, single, ",".join(map(str, paths))), naive_kappa.compare(*naive))


@settings(max_examples=EXAMPLES)
@given(trials(), st.lists(st.sampled_from(["plain", "vlan", "qinq", "mpls", "pw", "pw2"]), min_size=60, max_size=60))
def test_trial_in_an_underlay_equals_the_plain_trial(tmp_path, capsys, a, kinds):
    from scapy.layers.inet import IP, UDP  # noqa: PLC0415
    from scapy.packet import Raw  # noqa: PLC0415

    def build_frame(number: int, kind: str, ttl: int, tos: int) -> bytes:
        network = IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl, tos=tos, id=9) / UDP(sport=1, dport=2)
        return underlay(kind, network / Raw(number.to_bytes(8, "big")))

    inside = [(START_NS + ns, build_frame(n, kinds[n], 30, 4)) for ns, n in a]
    outside = [(START_NS + ns, build_frame(n, "plain", 64, 0)) for ns, n in a]
    paths = [write_pcap(tmp_path / f"{k}.pcap", trace) for k, trace in enumerate((inside, outside))]
    found = pair(capsys, *paths)
    assert found["n_common"] == len(a)
    assert found["kappa"] == (1 if a else None)
    check(found, reference(*paths))


def stamped(trial: list[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """Return (ns, frame) of a trial."""
    return [(START_NS + ns, frame(number)) for ns, number in trial]
