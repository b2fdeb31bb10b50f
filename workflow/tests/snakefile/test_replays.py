"""Replays in the configuration: environments that can run, their trials, and files of departures."""

import pytest
from acapella_testing.new_files import write_file, write_json

from acapella.snakefile import replays
from acapella.snakefile.config import checked
from acapella.snakefile.replays import environments_with_departures, replay_files, replay_of, with_replays

OURS = {"name": "ours", "sender": "acapella"}
CONSISTENCY = dict.fromkeys(("filter", "flow", "from", "to", "arrival_error_ns")) | {"identity": "invariant"}


def config_of(**changes) -> dict:
    replay = {"sender": "tcpreplay", "repeats": 2, "environments": ["quiet", OURS]}
    testbeds = {"local": {"replay": replay}, "fabric": {"replay": None}}
    return {"testbed": "local", "trials": None, "exclude": [], **testbeds} | changes


@pytest.fixture(params=[True, False])
def installed(request, monkeypatch):
    monkeypatch.setattr(replays, "program_installed", lambda: request.param)
    return request.param


def test_trials_include_only_environments_that_can_run(installed, capsys):
    given, found = config_of(), with_replays(config_of())
    assert with_replays(given)["trials"] == (
        {"quiet": ["quiet-1", "quiet-2"]} | ({"ours": ["ours-1", "ours-2"]} if installed else {})
    )
    assert found["local"]["replay"]["environments"] == (["quiet", OURS] if installed else ["quiet"])
    assert given == config_of(), "the given config is unchanged"
    assert capsys.readouterr().err == (
        "" if installed else 2 * "acapella: warning: acapella-dpdk-replay is missing; environments not replayed: ours\n"
    )
    assert with_replays(found) == found


def test_environments_are_kept_if_no_others_exist(installed):
    given = config_of()
    given["local"]["replay"] |= {"sender": "acapella"}
    assert with_replays(given)["local"] == given["local"], "collect then names the missing program"


@pytest.mark.parametrize(
    "changes",
    [{"testbed": "files"}, {"testbed": "fabric"}, {"local": {"replay": None}}, {"trials": {"mine": ["quiet-1"]}}],
)
def test_trials_of_the_config_and_of_other_testbeds_are_unchanged(monkeypatch, changes):
    monkeypatch.setattr(replays, "program_installed", lambda: True)
    assert with_replays(config_of(**changes)) == config_of(**changes)


@pytest.mark.parametrize(
    ("environments", "trials"),
    [
        (None, {"path": ["path-1", "path-3"]}),
        (
            [{"name": "slow"}, {"name": "fast", "speed": 2}],
            {name: [f"{name}-{n}" for n in (1, 2, 3)] for name in ("slow", "fast")},
        ),
    ],
)
def test_trials_on_fabric_match_its_environments(monkeypatch, environments, trials):
    monkeypatch.setattr(replays, "program_installed", lambda: False)
    senders = [{"node": "n", "interface": "eth1", "destination_mac": "02:00:00:00:00:01"}]
    replay = {"slice": "mine", "senders": senders, "site": "STAR", "port": "p", "repeats": 3}
    replay |= {"environments": environments} if environments else {}
    given = checked({"campaign": "c", "testbed": "fabric", "exclude": ["path-2"], "fabric": {"replay": replay}})
    found = with_replays(given)
    assert found["trials"] == trials
    assert found["fabric"] == given["fabric"]
    assert environments_with_departures(found) == [*trials]
    assert with_replays(given | {"trials": {"own": ["path-1", "path-3"]}})["trials"] == {"own": ["path-1", "path-3"]}


def test_environment_with_fewer_than_two_trials_is_not_compared(monkeypatch):
    monkeypatch.setattr(replays, "program_installed", lambda: True)
    assert with_replays(config_of(exclude=["quiet-2"]))["trials"] == {"ours": ["ours-1", "ours-2"]}
    assert with_replays(config_of(exclude=["quiet-2", "ours-1"]))["trials"] is None


@pytest.fixture
def manifests(tmp_path):
    """Return the paths of manifests of two trials, each sent by two replayers, in two shards."""
    for trial in ("a", "b"):
        files = {"recordings": ("r1", "r2"), "departures": (f"{trial}.1", f"{trial}.2")}
        replay = {kind: [{"file": name, "sha256": "0"} for name in names] for kind, names in files.items()}
        write_json(tmp_path / trial / f"{trial}.json", {"replay": replay})
    return [f"{tmp_path}/a/a.json", f"{tmp_path}/b/b.json"]


def test_kappa_gets_recordings_once_and_departures_of_each_trial(tmp_path, manifests):
    files = replay_files(manifests, CONSISTENCY, tmp_path)
    assert files.paths() == [f"{tmp_path}/{name}" for name in ("r1", "r2", "a/a.1", "a/a.2", "b/b.1", "b/b.2")]
    recordings = ["--recording", f"{tmp_path}/r1", f"{tmp_path}/r2", "--departures"]
    assert files.options() == [*recordings, *(f"{tmp_path}/{t}/{t}.1,{tmp_path}/{t}/{t}.2" for t in "ab")]


@pytest.mark.parametrize("error_ns", [0, 25])
def test_kappa_gets_the_error_of_arrival_timestamps(tmp_path, manifests, error_ns):
    files = replay_files(manifests, CONSISTENCY | {"arrival_error_ns": error_ns}, tmp_path)
    assert files.options()[0] == f"--arrival-error={error_ns}ns"
    assert files.options()[1:] == replay_files(manifests, CONSISTENCY, tmp_path).options()


@pytest.mark.parametrize("key", ["filter", "flow", "from", "to", "identity"])
def test_kappa_gets_no_departures_if_it_cannot_use_them(tmp_path, manifests, key):
    files = replay_files(manifests, CONSISTENCY | {key: "tag"}, tmp_path)
    assert files.paths() == files.options() == []


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"replay": []}', '{"replay": {"departures": []}}'])
def test_kappa_gets_no_departures_if_one_trial_has_none(tmp_path, manifests, text):
    (tmp_path / "b" / "b.json").unlink()
    if text is not None:
        write_file(tmp_path / "b" / "b.json", text)
    assert replay_files(manifests, CONSISTENCY, tmp_path).options() == []
    assert not replay_of(tmp_path / "b" / "b.json").get("departures")
