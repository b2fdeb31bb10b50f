"""Names that are rejected before they become paths or output."""

from types import SimpleNamespace

import pytest

from acapella_core import names
from acapella_core.arguments import Parser
from acapella_core.errors import UserError


@pytest.mark.parametrize("check", [names.sample, names.file, names.path])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "a/..", "/a", "a\n", "a\x1b[2J", "a\0", "\udc80", "a" * 256, None, 7]
)
def test_names_with_path_separators_or_line_breaks_are_rejected(check, name):
    with pytest.raises(UserError, match=r"^sheet line 2: ") as error:
        check(name, "sheet line 2")
    assert str(error.value).isprintable()


def test_valid_names_are_returned():
    assert names.sample("alpha-p1.0_x", "sheet") == "alpha-p1.0_x"
    assert names.file("a b.pcap", "sheet") == "a b.pcap"
    assert str(names.path("tables/a b.csv", "SHA256SUMS")) == "tables/a b.csv"
    assert names.label("Zürich p1/2", "sheet") == "Zürich p1/2"


@pytest.mark.parametrize("name", ["-a", ".a", "a b", "a{b}", "ä"])
def test_sample_names_follow_the_rules_of_the_sheet(name):
    with pytest.raises(UserError, match="only letters, digits, dot, dash, underscore"):
        names.sample(name, "sheet")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b]0;x\a", "a\u202eb", None])
def test_site_names_with_control_characters_are_rejected(name):
    with pytest.raises(UserError, match="control character"):
        names.label(name, "sheet")


def test_usage_errors_contain_no_control_characters(capsys):
    with pytest.raises(SystemExit) as ended:
        Parser(prog="acapella").parse_args(["\x1b[2J\u202eb"])
    line = capsys.readouterr().err
    assert ended.value.code == 2
    assert line.removesuffix("\n").isprintable() and r"\x1b[2J\u202eb" in line


def test_line_is_printed_with_one_write():
    """Another thread may print between two writes."""
    writes = []
    names.report("listening on 127.0.0.1:4800", SimpleNamespace(write=writes.append, flush=lambda: None))
    assert writes == ["listening on 127.0.0.1:4800\n"]
