"""Commands: their number, their examples, names of earlier versions, and completion in a shell."""

import argparse
import shlex
from itertools import takewhile

import pytest
from acapella_testing.processes import run

from acapella import __version__
from acapella.cli import commands
from acapella.cli.commands import COMMANDS, HEADINGS, RENAMED, Group, build_parser, example
from acapella.cli.main import main

EVERY_COMMAND = [
    (name, *inner)
    for name, command in COMMANDS.items()
    for inner in ([(each,) for each in command.modules] if isinstance(command, Group) else [()])
]


def parsed(line: str):
    """Parse an example up to a redirection or a pipe."""
    words = [*takewhile(lambda word: word not in (">", "|"), shlex.split(line))]
    assert words[0] == "acapella"
    return build_parser(words[1:]).parse_args(words[1:])


def test_top_level_has_at_most_17_names():
    assert len(COMMANDS) <= 17


def test_help_lists_every_command_with_an_example_of_two_lines(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    for name in COMMANDS:
        (place,) = [n for n, line in enumerate(lines, 1) if line.startswith(f"  {name} ")]
        below = [*takewhile(lambda line: line.startswith("      "), lines[place:])]
        assert len(below) == 2, name
        assert any(shlex.split(line)[1] == name for line in below), name
        assert all(callable(parsed(line).run) for line in below)
    assert [line.removesuffix(":") for line in lines if line.endswith(":")] == [*HEADINGS]


def test_version_is_printed_without_importing_commands(monkeypatch, capsys):
    monkeypatch.setattr(commands, "add_command", None)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"acapella {__version__}\n"


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_examples_in_the_help_of_a_command_can_be_parsed(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    lines = example(capsys.readouterr().out)
    assert len(lines) >= 2
    assert any(shlex.split(line)[: len(words) + 1] == ["acapella", *words] for line in lines)
    for line in lines:
        if not line.endswith("\\"):
            assert callable(parsed(line).run)


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_help_of_an_option_contains_its_default(words):
    parser = build_parser(words)
    for word in words:
        parser = next(action.choices[word] for action in parser._actions if word in (action.choices or ()))
    silent = (None, [], "", argparse.SUPPRESS)  # an option that is not given has no effect
    with_default = [each for each in parser._actions if each.nargs != 0 and each.default not in silent]
    assert [each.option_strings for each in with_default if "default" not in each.help] == []


@pytest.mark.parametrize("earlier", RENAMED)
def test_former_command_name_error_names_the_current_command(earlier, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*earlier.split(), "x", "--option"])
    now = RENAMED[earlier]
    line = f"acapella: error: {earlier!r} is now 'acapella {now}'; acapella {now} --help describes it\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, line)
    assert tuple(now.split()) in EVERY_COMMAND


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("papers", "acapella campaign papers"),
        ("compare", "acapella campaign compare or acapella p4 compare"),
        ("run", "acapella p4 run"),
    ],
)
def test_name_of_a_command_in_a_group_gives_a_hint(name, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "x"])
    line = f"acapella: error: {name!r} is unknown (did you mean {hint}?); see acapella --help\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, line)


def test_completion_script_can_be_piped_to_a_program_that_exits_early():
    done = run("bash", "-o", "pipefail", "-c", "acapella --print-completion bash | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def completion(tmp_path_factory):
    """Return a function that returns bash's completions of a line, in a directory with the file trace.pcap."""
    directory = tmp_path_factory.mktemp("completion")
    (directory / "trace.pcap").touch()
    with pytest.raises(SystemExit), pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", (directory / "script").write_text)
        main(["--print-completion", "bash"])

    def completed(*words: str) -> set[str]:
        program = (
            "source ./script; function=$(complete -p acapella); function=${function##*-F }; function=${function%% *};"
            ' COMP_WORDS=(acapella "$@"); COMP_CWORD=$#; $function acapella "${@: -1}" "${@: -2:1}";'
            ' printf "%s\\n" "${COMPREPLY[@]}"'
        )
        return set(run("bash", "-c", program, "bash", *words, cwd=directory, check=True).stdout.split())

    return completed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dig"], {"digest"}),
        (["campaign", "in"], {"index"}),
        (["p4", ""], {"run", "collect", "top", "sql", "reports", "compare", "tables", "study", "published"}),
        (["digest", "--engine", ""], {"native", "hybrid", "tshark"}),
        (["campaign", "index", "--vi"], {"--views"}),
        (["digest", "tr"], {"trace.pcap"}),
        (["digest", "trace.pcap", "--flows", "tr"], {"trace.pcap"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bash_completes_commands_options_choices_and_files(completion, words, expected):
    assert completion(*words) >= expected
    if words[-1]:
        assert all(word.startswith(words[-1]) for word in completion(*words))
