"""docs/kappa.md shows what its commands print, and has a row for each warning."""

import subprocess
import sys

from acapella_testing.oracles import naive_kappa
from acapella_testing.source_tree import ROOT

from acapella.kappa import baseline, warnings

TEXT = (ROOT / "docs" / "kappa.md").read_text()


def test_document_has_the_results_of_the_search(capsys):
    naive_kappa.main()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 12
    assert [line for line in printed if f"    {line}\n" not in TEXT] == []


def test_smaller_trials_are_not_ambiguous():
    ranks = naive_kappa.smallest_ambiguous()
    assert len(ranks) == 3
    assert len(set(naive_kappa.readings_of_equation_2(ranks).values())) == 2
    assert all(len(set(naive_kappa.readings_of_equation_2(r).values())) == 1 for r in [(0,), (0, 1), (1, 0)])


def test_warnings_have_a_row_in_the_document():
    checks = [check.__name__ for check in (*warnings.PAIR_CHECKS, *warnings.TRIAL_CHECKS)]
    assert [code for code in (*checks, baseline.CODE, warnings.FULL_QUEUE) if f"| `{code}` |" not in TEXT] == []


def test_committed_trials_match_the_script(tmp_path):
    subprocess.run([sys.executable, str(ROOT / ".test" / "make_trials.py"), str(tmp_path)], check=True)
    created = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert created == {path.name: path.read_bytes() for path in (ROOT / ".test" / "trials").iterdir()}


def test_table_1_of_the_paper_yields_its_printed_o():
    assert "mean|d| = 7240.23 for N = 1,055,648, which gives 0.0137" in TEXT
    assert round(2 * 7240.23 / (1_055_648 + 1), 4) == 0.0137
