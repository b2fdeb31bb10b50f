"""A schedule with injected jitter, replayed on a simulated clock: kappa finds exactly this jitter."""

import itertools

import pytest
from acapella_testing.capture import replayer
from acapella_testing.capture.commands import check_c_tests
from acapella_testing.frames.trial_captures import pair
from acapella_testing.oracles import naive_captures
from acapella_testing.processes import run

STEADY_NS, JITTER_NS, PACKETS = 10_000, 1_000, 2_000


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Return a directory with two trials: the recordings, the captures of the receiver, the departures."""
    check_c_tests("replay")  # builds the test program
    directory, program = tmp_path_factory.mktemp("trials"), replayer.built_or_skip().parent / "test_replay"
    done = run(program, "trials", directory, env=replayer.environment())
    assert done.returncode == 0, done.stderr
    return directory


def frames_of(path) -> list[tuple[int, bytes]]:
    """Return times in ns and bytes of the frames of a pcapng."""
    return [(int(packet.time_s * 10**9), packet.frame) for packet in naive_captures.packets(path)]


def test_captures_and_departures_match_the_injected_schedule(trials):
    for name in ("steady", "jittered"):
        recorded, captured = (frames_of(trials / f"{name}{end}.pcapng") for end in ("-recording", ""))
        departures = replayer.read_departures(trials / f"{name}.departures")
        assert [data for _, data in captured] == [data for _, data in recorded]
        assert len(captured) == PACKETS
        assert [ns - captured[0][0] for ns, _ in captured] == [ns - recorded[0][0] for ns, _ in recorded]
        assert [each.departed_ns for each in departures] == [ns for ns, _ in captured]
        assert [each.requested_ns for each in departures] == [ns for ns, _ in captured]


def test_kappa_of_the_trials_is_the_injected_difference(trials, capsys):
    steady, jittered = ([ns for ns, _ in frames_of(trials / f"{name}.pcapng")] for name in ("steady", "jittered"))
    result = pair(capsys, trials / "steady.pcapng", trials / "jittered.pcapng")
    shift = [(b - jittered[0]) - (a - steady[0]) for a, b in zip(steady, jittered, strict=True)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(shift)]
    assert 0 < max(map(abs, shift)) <= JITTER_NS
    assert steady[1] - steady[0] == STEADY_NS
    spans = (steady[-1] - steady[0], jittered[-1] - jittered[0])
    assert (result["n_common"], result["U"], result["O"]) == (PACKETS, 0, 0)
    assert result["integers"]["latency"]["sum"] == sum(map(abs, shift))
    assert result["integers"]["gap"]["sum"] == sum(map(abs, gaps))
    latency, iat = sum(map(abs, shift)) / (PACKETS * max(spans)), sum(map(abs, gaps)) / sum(spans)
    assert (result["L"], result["I"]) == (pytest.approx(latency, rel=1e-12), pytest.approx(iat, rel=1e-12))


def test_trial_is_consistent_with_its_own_recording(trials, capsys):
    result = pair(capsys, trials / "jittered-recording.pcapng", trials / "jittered.pcapng")
    assert (result["kappa"], result["n_common"]) == (1, PACKETS)
