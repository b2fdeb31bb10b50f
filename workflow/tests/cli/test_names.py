"""Names that are refused before they become paths or output."""

import pytest

from acapella_core import names
from acapella_core.arguments import Parser
from acapella_core.errors import UserError

REFUSED = ["", ".", "..", "../a", "a/..", "/a", "a\n", "a\x1b[2J", "a\0", "\udc80", "a" * 256, None, 7]


@pytest.mark.parametrize("check", [names.sample, names.file, names.path])
@pytest.mark.parametrize("name", REFUSED)
def test_names_that_leave_a_directory_or_a_line_are_refused(check, name):
    with pytest.raises(UserError, match=r"^sheet line 2: ") as error:
        check(name, "sheet line 2")
    assert str(error.value).isprintable()


def test_other_names_are_returned():
    assert names.sample("alpha-p1.0_x", "sheet") == "alpha-p1.0_x"
    assert names.file("a b.pcap", "sheet") == "a b.pcap"
    assert str(names.path("tables/a b.csv", "SHA256SUMS")) == "tables/a b.csv"
    assert names.label("Zürich p1/2", "sheet") == "Zürich p1/2"


@pytest.mark.parametrize("name", ["-a", ".a", "a b", "a{b}", "ä"])
def test_names_of_samples_are_those_of_the_sheet(name):
    with pytest.raises(UserError, match="only letters, digits, dot, dash, underscore"):
        names.sample(name, "sheet")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b]0;x\a", "a\u202eb", None])
def test_names_of_sites_have_no_control_characters(name):
    with pytest.raises(UserError, match="control character"):
        names.label(name, "sheet")


def test_mistakes_in_a_command_line_are_printed_without_control_characters(capsys):
    with pytest.raises(SystemExit) as ended:
        Parser(prog="acapella").parse_args(["\x1b[2J\u202eb"])
    line = capsys.readouterr().err
    assert ended.value.code == 2
    assert line.removesuffix("\n").isprintable() and r"\x1b[2J\u202eb" in line
