"""Tests the checks before a testbed captures samples, and the plan in a dry run."""

import atexit
import json

import pytest

from acapella.snakefile.collection import Collection, CollectionFunctions, collection_config
from acapella.snakefile.config import checked
from acapella_core.errors import UserError

CONFIG = checked({"campaign": "x", "testbed": "local", "samples": "s.tsv"})


class UnknownInAdvance(Exception):
    """The samples are known only after the collection."""


class FakeTestbed:
    """Functions like those of acapella_capture that record their calls. ``fault``: the function that fails."""

    def __init__(self, fault: str | None = None, samples=("a", "b")):
        self.calls, self.fault, self.samples = [], fault, samples

    def called(self, name: str) -> None:
        self.calls.append(name)
        if self.fault == name:
            raise UserError(f"{name} failed")

    def planned_samples(self, settings):
        self.called("samples")
        if self.samples is None:
            raise UnknownInAdvance
        return [{"sample": sample} for sample in self.samples]

    def describe_plan(self, settings, campaign):
        self.called("plan")
        return f"{campaign}: {sorted(settings)}\n"

    def collection(self, **changes) -> Collection:
        functions = CollectionFunctions(
            keys=("testbed", "local"),
            parse=lambda selected: self.called("parse") or selected,
            check_programs=lambda settings: self.called("programs"),
            planned_samples=self.planned_samples,
            unknown_in_advance=UnknownInAdvance,
            describe_plan=self.describe_plan,
        )
        return Collection(CONFIG | changes, functions)


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, {"testbed", "runs", "capture", "collect", "local"}),
        ({"testbed": "fabric"}, {"testbed", "runs", "capture", "collect", "fabric"}),
        ({"testbed": "files"}, {"testbed", "samples", "digest"}),
        ({"preprocess": {"anonymize": True}}, {"testbed", "runs", "capture", "collect", "local", "preprocess"}),
        ({"testbed": "files", "preprocess": {"anonymize": True}}, {"testbed", "samples", "digest"}),
    ],
)
def test_collection_depends_only_on_keys_that_determine_its_samples(changes, keys):
    selected = json.loads(collection_config(CONFIG | changes))
    assert selected.keys() == keys
    assert selected.get("digest", {}).keys() <= {"max_decompressed", "max_ratio"}


@pytest.mark.parametrize(("collected", "calls"), [(False, ["parse", "programs", "plan"]), (True, ["parse", "plan"])])
def test_programs_are_checked_before_a_collection_but_not_after_it(collected, calls):
    testbed = FakeTestbed()
    testbed.collection().check(collected=collected)
    assert testbed.calls == calls


def test_plan_of_a_remote_testbed_is_not_requested_before_a_dry_run():
    testbed = FakeTestbed()
    collection = testbed.collection(testbed="fabric", exclude=["z"])
    collection.check(collected=False)
    assert testbed.calls == ["parse", "programs"]
    assert collection.plan() == "x: ['local', 'testbed']\n"


@pytest.mark.parametrize("fault", ["parse", "programs", "plan"])
def test_errors_are_found_before_a_collection(fault):
    with pytest.raises(UserError, match=f"{fault} failed"):
        FakeTestbed(fault).collection().check(collected=False)


def test_configured_names_must_be_samples_of_the_collection():
    FakeTestbed().collection(exclude=["a"]).check(collected=False)
    with pytest.raises(UserError, match=r"^exclude: 'z' is not a sample of testbed local$"):
        FakeTestbed().collection(exclude=["z"]).check(collected=False)
    FakeTestbed(samples=None).collection(exclude=["z"]).check(collected=False)  # the names are known only afterwards


def test_plan_is_printed_once_when_snakemake_ends(capsys, monkeypatch):
    registered, testbed = [], FakeTestbed()
    monkeypatch.setattr(atexit, "register", lambda *call, **options: registered.append((call, options)))
    collection = testbed.collection()
    collection.print_plan_at_exit()
    collection.print_plan_at_exit()
    assert (testbed.calls, capsys.readouterr().out) == (["parse", "plan"], "")
    (((function, *arguments), options),) = registered
    function(*arguments, **options)
    assert capsys.readouterr().out == "What collect would do:\nx: ['local', 'testbed']\n"


def test_plan_that_fails_ends_snakemake_with_one_line():
    with pytest.raises(SystemExit) as ended:
        FakeTestbed("plan").collection(testbed="fabric").print_plan_at_exit()
    assert ended.value.code == "config error: plan failed"
