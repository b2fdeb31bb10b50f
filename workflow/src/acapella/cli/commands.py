"""The commands: their modules, their groups, and their earlier names.

The module of a command has `register_parser(subparsers)`, which returns its parser, `run(args)`, which returns None or
an exit code, and optionally `confine(args)`. Its docstring is the help text; the first indented block of the docstring
is an example of two lines. A command without a module here is an entry point of the group `acapella.commands` in
another package: `collect`, `generate`, `monitor`, `replay`, `transfer`; `measure-storage` and `measure-response` for
the commands `storage` and `response` of the group `measure`.
"""

import argparse
import functools
import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from acapella import __version__
from acapella_core import names
from acapella_core.arguments import Parser
from acapella_core.errors import MISTAKE

DESCRIPTION = "Convert samples of network traffic to statistics and figures."


@dataclass(frozen=True)
class Group:
    """Commands with a common first word: the help of the group, and the module of each command."""

    help: str
    description: str
    modules: dict[str, str | None]


CAMPAIGN = Group(
    "run a single step of a campaign; check a campaign",
    """Run a single step of a campaign (results/NAME). Snakemake runs all steps that are needed.

    acapella campaign index results/demo
    acapella campaign report results/demo
""",
    {
        "index": "campaign.index",
        "analyze": "campaign.analyze",
        "process": "campaign.process",
        "trials": "campaign.trials",
        "conformance": "kappa.conformance",
        "papers": "papers.command",
        "storage": "campaign.storage",
        "monitored": "campaign.monitor",
        "transfers": "transfer.tables",
        "infrastructure": "infrastructure.tables",
        "slice-records": "infrastructure.records",
        "predict": "transfer.predict",
        "outcomes": "campaign.outcomes",
        "figures": "figures.command",
        "report": "report.command",
        "dashboard": "dashboard.command",
        "compare": "release.compare",
        "check": "cli.check",
        "batch": "cli.batch",
        "cache": "cli.cache",
    },
)

P4 = Group(
    "run P4 programs on captures; collect and compare their flow reports",
    """Run P4 programs on captures; collect their flow reports, and compare these with the digest.

    acapella p4 run flowstats --in trace.pcap --control qp.control --out reports.pcap
    acapella p4 collect reports.pcap --control qp.control -o reports

docs/p4.md describes the programs, docs/collector.md the collector, docs/flowreports.md the comparison, and
p4/loader/README.md the language of control files.
""",
    {
        "run": "p4.run_program",
        "collect": "collector.receive",
        "top": "collector.top",
        "sql": "collector.sql",
        "reports": "flowreports.command",
        "compare": "flowreports.comparators",
        "tables": "flowreports.tables",
        "study": "flowreports.study",
        "published": "flowreports.published",
    },
)

MEASURE = Group(
    "measure this machine: writes to disk, TCP flows, the collector",
    """Measure this machine, for the studies of storage and of flow reports.

    acapella measure storage -o storage.json
    acapella measure collector -o offered.json
""",
    {"storage": None, "response": None, "collector": "flowreports.offered"},
)

# In the order in which new users need them.
HEADINGS: dict[str, dict[str, str | Group | None]] = {
    "Captures": {
        "digest": "digest.command",
        "show": "digest.show",
        "extract": "campaign.extract",
        "verify": "verify.command",
        "kappa": "kappa.command",
    },
    "Campaigns": {"sql": "campaign.sql", "campaign": CAMPAIGN},
    "Testbeds": {
        "doctor": "cli.doctor",
        "collect": None,
        "generate": None,
        "monitor": None,
        "replay": None,
        "transfer": None,
    },
    "Publication": {"anonymize": "release.anonymize", "release": "release.command"},
    "Data plane and studies": {"p4": P4, "measure": MEASURE},
}
COMMANDS = {name: command for commands in HEADINGS.values() for name, command in commands.items()}

GROUPED = ("index", "analyze", "process", "trials", "conformance", "storage", "outcomes", "figures", "report", "check")
RENAMED = {  # former names of commands, without those that were always in a group
    "anonymise": "anonymize",
    **{name: f"campaign {name}" for name in GROUPED},
    "collector run": "p4 collect",
    "collector top": "p4 top",
    "collector sql": "p4 sql",
    "collector": "p4 collect",
    "flowreports": "p4 reports",
    "comparators": "p4 compare",
    "flowtables": "p4 tables",
    "flowstudy": "p4 study",
    "flowpublished": "p4 published",
    "measure-storage": "measure storage",
    "measure-response": "measure response",
    "measure-collector": "measure collector",
}
# Placeholders of files and directories in help texts; shells complete their values.
PATHS = {"ACAP", "CAMPAIGN", "CAPTURE", "CSV", "DIR", "DIRECTORY", "FILE", "FLOWS", "IN", "OUT", "PATH"}
PATHS |= {"PROGRAM", "TRIAL", "YAML"}


class CommandLine(Parser):
    """The parser of the whole command line. Its help lists the commands by heading, each with its example."""

    def __init__(self):
        super().__init__(prog="acapella", usage="acapella [--version] COMMAND ...")
        self.add_argument("--version", action="version", version=f"acapella {__version__}")
        self.subparsers = self.add_subparsers(
            dest="command", required=True, metavar="COMMAND", prog=self.prog, parser_class=Parser
        )

    def format_help(self) -> str:
        """Return the help, which lists the commands that have been added under their headings."""
        summaries = {action.dest: action.help for action in self.subparsers._choices_actions}
        lines = [f"usage: {self.usage}", "", DESCRIPTION]
        for heading, commands in HEADINGS.items():
            lines += ["", f"{heading}:"]
            for name in filter(summaries.get, commands):
                lines += [f"  {name:10} {summaries[name]}"]
                lines += [f"      {line}" for line in example(self.subparsers.choices[name].description)]
        lines += ["", "acapella COMMAND --help describes a command."]
        return "\n".join([*lines, "acapella --print-completion {bash,zsh,...} prints a script for a shell.", ""])


def example(text: str | None) -> list[str]:
    """Return the command lines of the first indented block of a help text."""
    block = re.search(r"(^    acapella .*\n)+", text or "", re.MULTILINE)
    return [line.strip() for line in block[0].splitlines()] if block else []


kept_parsers: dict[tuple[str, ...], argparse.ArgumentParser] = {}  # by the words that name the command


def keep_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of a command, and keep it for `build_parser`, so that forks need not build it again."""
    parser = build_parser(words)
    kept_parsers[command_words(words)] = parser
    return parser


def command_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words at the start of a command line that name the command."""
    return tuple(words[: 2 if words and isinstance(COMMANDS.get(words[0]), Group) else 1])


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of a command line that begins with ``words``.

    If they name a command, only this command is imported and added, so that it starts quickly. For --version, no
    command is added.
    """
    if kept := kept_parsers.get(command_words(words)):
        return kept
    parser = CommandLine()
    if words and words[0] == "--version":
        return parser
    for name in selected_commands(words, COMMANDS):
        command = COMMANDS[name]
        if isinstance(command, Group):
            group = parser.subparsers.add_parser(
                name,
                help=command.help,
                description=command.description,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            commands = group.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
            for subcommand in selected_commands(words[1:], command.modules):
                add_command(commands, f"{name}-{subcommand}", command.modules[subcommand])
            refuse_missing(words[:2], commands)
        else:
            add_command(parser.subparsers, name, command)
    refuse_missing(words[:1], parser.subparsers)
    if not words or words[0] not in COMMANDS:
        add_completion(parser)
    return parser


def selected_commands(words: Sequence[str], commands: dict) -> Sequence[str]:
    """Return the command with which ``words`` begin, or all commands."""
    return words[:1] if words and words[0] in commands else [*commands]


def add_command(subparsers, entry: str, module: str | None) -> None:
    """Add a command: from its module, or without a module from its entry point, if an installed package has it."""
    implementation = importlib.import_module(f"acapella.{module}") if module else entry_module(entry)
    if implementation is None:
        return
    parser = implementation.register_parser(subparsers)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--debug", action="store_true", help="show a traceback on error")
    parser.set_defaults(run=implementation.run, confine=getattr(implementation, "confine", None))


def refuse_missing(words: Sequence[str], subparsers) -> None:
    """Exit with a one-line error if the command in ``words`` was not added, because its package is not installed."""
    if not subparsers.choices:
        names.report(f"acapella: error: {' '.join(words)}: the installation is incomplete; run make setup")
        sys.exit(MISTAKE)


@functools.cache  # a batch looks it up before it forks; a lookup reads the metadata of all installed packages
def entry_module(name: str) -> ModuleType | None:
    """Return the module of an entry point; None if no installed package has it."""
    return next((entry.load() for entry in entry_points(group="acapella.commands", name=name)), None)


def add_completion(parser: CommandLine) -> None:
    """Add the option that prints a completion script, and have shells complete paths."""
    import shtab  # noqa: PLC0415 - needed only here

    shtab.add_argument_to(parser, "--print-completion", help="print a script that completes commands in a shell")
    parsers: list[argparse.ArgumentParser] = [parser]
    for current in parsers:  # the loop appends to this list
        for action in current._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.nargs != 0 and is_path(action):
                action.complete = shtab.FILE


def is_path(action: argparse.Action) -> bool:
    """Return whether the value of an argument is a file or a directory."""
    return action.type is Path or re.split(r"[.|]", str(action.metavar))[0] in PATHS


def refuse_other_name(words: Sequence[str]) -> None:
    """Exit with a one-line error if a command line begins with a former name, or with a subcommand but no group."""
    for name in (" ".join(words[:2]), " ".join(words[:1])):
        if name in RENAMED:
            new_name = f"acapella {RENAMED[name]}"
            names.report(f"acapella: error: {name!r} is now {new_name!r}; {new_name} --help describes it")
            sys.exit(MISTAKE)
    groups = {name: command for name, command in COMMANDS.items() if isinstance(command, Group)}
    if words and words[0] not in COMMANDS:
        near = [f"acapella {name} {words[0]}" for name, group in groups.items() if words[0] in group.modules]
        if near:
            hint = f"did you mean {' or '.join(near)}?"
            names.report(f"acapella: error: {words[0]!r} is unknown ({hint}); see acapella --help")
            sys.exit(MISTAKE)
