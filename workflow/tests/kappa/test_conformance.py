"""Every kappa that the CHOIR paper printed is recomputed: verdicts and errata; a changed digit is detected."""

import math

import pyarrow.parquet as pq
import pytest
from acapella_testing.csv_rows import read_rows, write_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require
from acapella_testing.source_tree import ROOT

from acapella.cli import main as cli
from acapella.kappa.conformance import DIRECTORY, Printed, read_errata, read_printed, table_rows

FACTS = ROOT.parent / "shared" / "facts" / "kappa_paper.csv"
PRINTED = DIRECTORY / "kappa_printed.csv"
ERRATA = DIRECTORY / "kappa_errata.yaml"
COMPONENTS = ("U", "O", "L", "I")


def verdicts(path=PRINTED):
    """Return the rows of the table by (environment, run)."""
    return by_place(table_rows(read_printed(path), read_errata(ERRATA)["errata"]))


def by_place(rows):
    """Return rows by (environment, run)."""
    return {(row["environment"], row["run"]): row for row in rows}


def altered(tmp_path, place, column, text):
    """Write a copy of the printed numbers with one of them changed."""
    rows = read_rows(PRINTED)
    row = by_place(rows)[place]
    assert row[column] != text
    row[column] = text
    write_rows(tmp_path / "altered.csv", rows)
    return tmp_path / "altered.csv"


def test_printed_kappas_agree_or_have_an_erratum(tmp_path, capsys):
    assert cli.main(["campaign", "conformance", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(": 41 printed kappas: 30 agree, 1 agree loosely, 10 disagree\n")
    table = pq.read_table(tmp_path / "kappa_published.parquet").to_pylist()
    assert [row["row"] for row in table] == list(range(1, 42))
    assert all(row["erratum"] for row in table if row["verdict"] == "disagrees")
    assert (tmp_path / "kappa_published.csv").read_text(encoding="utf-8").count("\n") == 42


@pytest.mark.parametrize(
    ("place", "column", "text", "verdict"),
    [
        (("Local Single-Replayer", "B"), "kappa", "0.9853", ("agrees", "disagrees")),
        (("FABRIC Shared 80 Gbps", "C"), "I", "0.112", ("agrees", "disagrees")),
        (("FABRIC Dedicated 40 Gbps 1", "B"), "I", "0.6968", ("disagrees", "agrees")),
        (("FABRIC Dedicated 40 Gbps 2", "mean"), "I", "0.4996", ("agrees_loosely", "agrees")),
    ],
)
def test_altered_value_changes_only_its_own_verdict(place, column, text, verdict, tmp_path):
    first, second = verdicts(), verdicts(altered(tmp_path, place, column, text))
    assert (first[place]["verdict"], second[place]["verdict"]) == verdict
    assert {key for key in first if first[key]["verdict"] != second[key]["verdict"]} == {place}


def test_disagreement_without_erratum_is_an_error(tmp_path, capsys):
    error = conformance_error(
        capsys, altered(tmp_path, ("Local Single-Replayer", "B"), "kappa", "0.9853"), ERRATA, tmp_path
    )
    assert "Local Single-Replayer, run B: kappa 0.9853 is printed, its components allow 0.985475 to 0.985525" in error


def conformance_error(capsys, printed, errata, directory) -> str:
    """Return the error message of the command, which is one line."""
    return failed(capsys, "campaign", "conformance", "--printed", printed, "--errata", errata, "-o", directory)


def errata_with(tmp_path, old: str, new: str):
    """Write a copy of the errata with one place changed."""
    text = ERRATA.read_text(encoding="utf-8")
    assert text.count(old) == 1
    return write_file(tmp_path / "errata.yaml", text.replace(old, new))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((("Local Dual-Replayer", "B"), "I", "0.312"), "the erratum contains a different I"),
        ((("Local Dual-Replayer", "mean"), "kappa", "0.9283"), "the erratum contains a different kappa"),
        ((("Local Dual-Replayer", "B"), "O", "0.01370"), "the erratum contains a different O"),
        ((("FABRIC Dedicated 40 Gbps 1", "B"), "I", "0.6968"), "the erratum contains a different I"),
        ((("FABRIC Dedicated 40 Gbps 2", "mean"), "I", "0.4996"), "the erratum contains a different I"),
        ((("FABRIC Shd. 40 Gbps Noisy", "mean"), "L", "2.04e-4"), "the erratum contains a different L"),
        ((("FABRIC Shd. 40 Gbps Noisy", "C"), "L", "2.12e-4"), "the erratum contains a different L"),
        ((("FABRIC Shared 80 Gbps", "mean"), "L", "2.36e-5"), "the printed L is not the mean of the printed runs"),
        # An erratum for another run of the environment does not apply.
        ((("FABRIC Dedicated 40 Gbps 2", "B"), "kappa", "0.7400"), "kappa 0.74 is printed"),
    ],
)
def test_altered_number_fails_despite_errata_of_its_row(tmp_path, capsys, change, message):
    assert message in conformance_error(capsys, altered(tmp_path, *change), ERRATA, tmp_path)


@pytest.mark.parametrize(
    ("place", "kappa"),
    [(("FABRIC Shd. 40 Gbps Noisy", "C"), "0.7576"), (("FABRIC Ded. 80 Gbps Noisy", "mean"), "0.9458")],
)
def test_erratum_without_explanation_does_not_excuse_a_row(tmp_path, capsys, place, kappa):
    """This also applies if the erratum is about the new number."""
    errata = errata_with(tmp_path, f" {kappa}", " 0.7400")
    error = conformance_error(capsys, altered(tmp_path, place, "kappa", "0.7400"), errata, tmp_path)
    assert f"{', run '.join(place)}: kappa 0.74 is printed, its components allow" in error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("explains: [L]", "explains: [L, I]", "Noisy, run mean: the erratum explains I, which needs no explanation"),
        ("explains: [L]", "explains: []", "Noisy, run mean: the printed L is not the mean of the printed runs"),
        (
            "explains: [agrees_loosely]",
            "explains: []",
            "Gbps 2, run mean: kappa 0.7502 is printed and agrees only with",
        ),
        (
            "explains: [agrees_loosely]",
            "explains: [disagrees]",
            "Gbps 2, run mean: the erratum explains disagrees, which needs",
        ),
        ("      C: 0 0.0270 0.0101 0.172 0.9275\n", "", "Local Dual-Replayer, run C: kappa 0.9275 is printed, its"),
        ("0.0137 0.0051 0.311", "0.0137 0.0051 0.312", "Dual-Replayer, run B: the erratum contains a different I"),
        ("{mean: 0 0 1.37e-5 0.1085 0.9458}", "{B: 0 0 0 0 1}", "Noisy, run B: the erratum refers to a missing row"),
        ("Gbps Noisy: [mean]", "Gbps Noisy: [B, mean]", "Noisy, run B: 0 rows here, 1 in "),
        ("Gbps Noisy: [mean]", "Gbps Noisy: []", "Noisy, run mean: 1 rows here, 0 in "),
        ("0 0 1.37e-5 0.1085 0.9458", "0 0 1.37e-5", "not a file of errata"),
        ("errata:\n  -", "errat:\n  -", "not a file of errata"),
    ],
)
def test_errata_that_do_not_apply_fail(tmp_path, capsys, old, new, message):
    assert message in conformance_error(capsys, PRINTED, errata_with(tmp_path, old, new), tmp_path)


def test_note_of_an_erratum_is_only_in_its_rows():
    rows = verdicts()
    noted = {run for environment, run in rows if "40 Gbps 2" in environment and rows[environment, run]["erratum"]}
    assert noted == {"mean"}
    assert "L is printed" not in rows["FABRIC Shd. 40 Gbps Noisy", "B"]["erratum"]


def test_erratum_for_an_agreeing_row_is_an_error(tmp_path, capsys):
    """This also applies if the erratum describes the new number."""
    path = altered(tmp_path, ("FABRIC Dedicated 40 Gbps 2", "mean"), "I", "0.4996")
    errata = errata_with(tmp_path, "4.20e-4 0.4998 0.7502", "4.20e-4 0.4996 0.7502")
    assert "the erratum explains agrees_loosely, which needs no explanation" in conformance_error(
        capsys, path, errata, tmp_path
    )


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("at", [1, 5, 40, 41])
def test_missing_and_duplicate_rows_are_errors(tmp_path, capsys, at, count):
    lines = PRINTED.read_text(encoding="utf-8").splitlines(keepends=True)
    path = write_file(tmp_path / "printed.csv", "".join(lines[:at] + [lines[at]] * count + lines[at + 1 :]))
    assert f"{count} rows here, 1 in " in conformance_error(capsys, path, ERRATA, tmp_path)


@pytest.mark.parametrize("content", ["", "environment,run\na,b\n", "environment,run,U,O,L,I,kappa\na,b,0,0,0,x,1\n"])
def test_invalid_table_of_printed_numbers_is_an_error(content, tmp_path, capsys):
    path = write_file(tmp_path / "printed.csv", content)
    assert "not a table of environment, run, U, O, L, I, kappa" in conformance_error(capsys, path, ERRATA, tmp_path)


def test_printed_number_covers_all_numbers_that_round_to_it():
    number = Printed.parse("2.60e-6")
    assert [float(end) for end in (number.low, number.value, number.high)] == [2.595e-6, 2.6e-6, 2.605e-6]
    assert Printed.parse("0") == Printed(0, 0, 0)


def test_printed_means_that_differ_from_their_runs_are_listed():
    assert {key: row["unlike_runs"] for key, row in verdicts().items() if row["unlike_runs"]} == {
        ("FABRIC Shd. 40 Gbps Noisy", "mean"): "L"
    }


def test_first_dedicated_test_implies_a_different_i():
    implied = [verdicts()["FABRIC Dedicated 40 Gbps 1", run]["I_implied"] for run in "BCDE"]
    assert [round(value, 4) for value in implied] == [0.6968, 0.3536, 0.3650, 0.6436]


def test_recomputed_kappa_is_equation_5_within_its_interval():
    for row in verdicts().values():
        assert row["kappa_recomputed"] == pytest.approx(1 - math.hypot(*(row[name] for name in COMPONENTS)) / 2)
        assert row["kappa_lo"] <= row["kappa_recomputed"] <= row["kappa_hi"]


def test_verdicts_match_an_independent_recomputation():
    require(FACTS.is_file(), f"no facts: {FACTS} is not there")
    called = {"ok": "agrees", "ok_loose": "agrees_loosely", "DISAGREE": "disagrees"}
    facts, rows = by_place(read_rows(FACTS)), verdicts()
    assert facts.keys() == rows.keys()
    for key, fact in facts.items():
        assert rows[key]["verdict"] == called[fact["verdict"]], key
        assert rows[key]["kappa_lo"] == pytest.approx(float(fact["kappa_lo"]), abs=2e-6)
        assert rows[key]["kappa_hi"] == pytest.approx(float(fact["kappa_hi"]), abs=2e-6)
