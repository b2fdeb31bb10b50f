"""The commands in docs/tutorial.md print the output that the page shows."""

import re

from acapella_testing import pages
from acapella_testing.source_tree import ROOT

PAGE = "tutorial.md"


def test_commands_print_the_output_in_the_tutorial(tmp_path):
    (tmp_path / ".test").symlink_to(ROOT / ".test")
    (tmp_path / "results").mkdir()
    assert {command.split()[0] for command, _ in pages.commands(pages.text_of(PAGE))} >= {"acapella", "snakemake"}
    pages.check(pages.text_of(PAGE), tmp_path)
    assert "<svg" in (tmp_path / "results/first/figures/frame_sizes.svg").read_text()


def test_set_up_commands_exist():
    page, makefile = pages.text_of(PAGE), (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\S+)", page, re.M) + re.findall(r"`make (\S+)`", page)
    assert "setup" in targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []
