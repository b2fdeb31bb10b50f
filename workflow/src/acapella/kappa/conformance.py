"""Recompute every kappa printed in the CHOIR paper from the components printed next to it.

    acapella campaign conformance -o results/demo/tables
    acapella campaign conformance -o tables --printed printed.csv --errata errata.yaml

Writes kappa_published.csv and .parquet (schemas/tables/kappa_published.yaml) into a directory. A printed number
represents every number that rounds to it, so each row has an interval and a verdict; known errata are in the same rows.
Fails if a row disagrees without an erratum that explains it, if an erratum refers to different numbers or explains a
difference that does not exist, or if a row is missing. The numbers and errata are in workflow/conformance/.
"""

import csv
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import yaml

from acapella_core import beneath
from acapella_core.errors import UserError

DIRECTORY = Path(__file__).resolve().parents[3] / "conformance"
COMPONENTS = ("U", "O", "L", "I")
NUMBERS = (*COMPONENTS, "kappa")
MEAN = "mean"
AGREES, LOOSELY, DISAGREES = "agrees", "agrees_loosely", "disagrees"


def register_parser(subparsers):
    """Add `acapella campaign conformance`."""
    parser = subparsers.add_parser(
        "conformance", help="recompute every kappa printed in the CHOIR paper", description=__doc__
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIRECTORY", help="output directory")
    printed, errata = DIRECTORY / "kappa_printed.csv", DIRECTORY / "kappa_errata.yaml"
    parser.add_argument("--printed", default=printed, metavar="CSV", help=f"printed numbers (default: {printed.name})")
    parser.add_argument("--errata", default=errata, metavar="YAML", help=f"known errata (default: {errata.name})")
    return parser


def run(args) -> None:
    """Write the table and print the number of rows with each verdict.

    Raises UserError if errata and numbers are inconsistent.
    """
    printed, expected = read_printed(Path(args.printed)), read_errata(Path(args.errata))
    rows = table_rows(printed, expected["errata"])
    beneath.protect(args.output)
    write(rows, Path(args.output))
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (AGREES, LOOSELY, DISAGREES)}
    verdicts = f"{counts[AGREES]} agree, {counts[LOOSELY]} agree loosely, {counts[DISAGREES]} disagree"
    print(f"{args.output}: {len(rows)} printed kappas: {verdicts}")
    check_errata(printed, rows, expected, args)
    for row in rows:
        check_explained(row, args)


def check_explained(row: dict, args) -> None:
    """Raise UserError for the first difference in the row that no erratum explains."""
    where = f"{row['environment']}, run {row['run']}"
    fix = f"correct the number or add an erratum to {args.errata}"
    for need in row["needs"]:
        if need in row["explained"]:
            continue
        allowed = f"its components allow {row['kappa_lo']:.6f} to {row['kappa_hi']:.6f}"
        if need == DISAGREES:
            text = f"kappa {row['kappa']} is printed, {allowed}"
        elif need == LOOSELY:
            text = f"kappa {row['kappa']} is printed and agrees only with the means of the runs; {allowed}"
        else:
            text = f"the printed {need} is not the mean of the printed runs"
        raise UserError(f"{where}: {text}", where=args.printed, fix=fix)


def check_errata(printed: list[dict], rows: list[dict], expected: dict, args) -> None:
    """Raise UserError if the rows do not match the listed environments, or an erratum does not match its row."""
    printed_runs = [(row["environment"], row["run"]) for row in printed]
    listed_runs = [(environment, run) for environment, runs in expected["environments"].items() for run in runs]
    for run_key in (*listed_runs, *printed_runs):
        if printed_runs.count(run_key) != 1 or run_key not in listed_runs:
            counts = f"{printed_runs.count(run_key)} rows here, {listed_runs.count(run_key)} in {args.errata}"
            raise UserError(f"{', run '.join(run_key)}: {counts}", where=args.printed, fix="list each run once")
    for erratum in expected["errata"]:
        for run, numbers in erratum["printed"].items():
            run_key = (erratum["environment"], run)
            where = f"{', run '.join(run_key)}: the erratum"
            if run_key not in printed_runs:
                raise UserError(f"{where} refers to a missing row", where=args.errata, fix="correct or remove it")
            index = printed_runs.index(run_key)
            changed = [name for name in NUMBERS if printed[index][name] != numbers[name]]
            if changed:
                raise UserError(
                    f"{where} contains a different {', '.join(changed)}", where=args.errata, fix="update it"
                )
            unused = [what for what in erratum["explains"] if what not in rows[index]["needs"]]
            if unused:
                raise UserError(
                    f"{where} explains {', '.join(unused)}, which needs no explanation",
                    where=args.errata,
                    fix="correct it",
                )


@dataclass(frozen=True)
class Printed:
    """A number as printed, and the exact bounds of the numbers that round to it. A printed 0 is exactly 0."""

    value: Fraction
    low: Fraction
    high: Fraction

    @classmethod
    def parse(cls, text: str) -> "Printed":
        """Return a number with its bounds: ``2.62e-6`` is 2.615e-6 to 2.625e-6, half a unit of its last digit away."""
        number = Decimal(text)
        half = Fraction(10) ** number.as_tuple().exponent / 2 if number else Fraction(0)
        return cls(Fraction(number), max(Fraction(number) - half, Fraction(0)), Fraction(number) + half)

    def overlaps(self, other: "Printed") -> bool:
        """Return whether the intervals overlap."""
        return self.low <= other.high and other.low <= self.high


def mean_of(numbers: list[Printed]) -> Printed:
    """Return the mean of numbers, with the bounds that follow from the numbers' bounds."""
    ends = ((getattr(number, end) for number in numbers) for end in ("value", "low", "high"))
    return Printed(*(sum(end) / len(numbers) for end in ends))


def read_printed(path: Path) -> list[dict]:
    """Return rows of environment, run, and a Printed for U, O, L, I and kappa.

    Raises UserError if the file does not contain this table.
    """
    columns = ["environment", "run", *NUMBERS]
    not_this_table = f"not a table of {', '.join(columns)}"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        if not rows:
            raise UserError(not_this_table, where=path)
        return [{key: row[key] if key in columns[:2] else Printed.parse(row[key]) for key in columns} for row in rows]
    except (KeyError, TypeError, ArithmeticError, UnicodeDecodeError) as error:
        raise UserError(not_this_table, where=path) from error


def read_errata(path: Path) -> dict:
    """Return ``environments`` (with their runs) and ``errata`` (each with environment, printed by run, explains, note).

    Raises UserError if the file has a different format.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        errata = [
            {
                **{"environment": erratum["environment"], "explains": list(erratum["explains"])},
                **{"printed": {run: numbers_of(text) for run, text in erratum["printed"].items()}},
                "note": erratum["note"].strip(),
            }
            for erratum in content["errata"]
        ]
        return {"environments": {name: list(runs) for name, runs in content["environments"].items()}, "errata": errata}
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError("not a file of errata: environments, errata", where=path) from error


def numbers_of(text: str) -> dict:
    """Return a Printed for U, O, L, I and kappa from five numbers in this order. Raises ValueError."""
    return {name: Printed.parse(number) for name, number in zip(NUMBERS, text.split(), strict=True)}


def table_rows(printed: list[dict], errata: list[dict]) -> list[dict]:
    """Return the rows of kappa_published with two more keys.

    `needs` lists the differences that an erratum must explain, `explained` those that an erratum explains.
    """
    runs = {}
    for row in printed:
        if row["run"] != MEAN:
            runs.setdefault(row["environment"], []).append(row)
    return [table_row(index, row, runs.get(row["environment"], []), errata) for index, row in enumerate(printed, 1)]


def table_row(index: int, row: dict, runs: list[dict], errata: list[dict]) -> dict:
    """Return row ``index`` of the table. ``runs`` are the rows of the same environment other than its mean."""
    components = {name: row[name] for name in COMPONENTS}
    verdict = AGREES if agrees(components, row["kappa"]) else DISAGREES
    differing = []
    if row["run"] == MEAN and runs:
        means = {name: mean_of([run[name] for run in runs]) for name in NUMBERS}
        if verdict == DISAGREES and agrees({name: means[name] for name in COMPONENTS}, row["kappa"]):
            verdict = LOOSELY
        differing = [name for name, mean in means.items() if not mean.overlaps(row[name])]
    matching = [e for e in errata if e["environment"] == row["environment"] and row["run"] in e["printed"]]
    longest, shortest = (distance(components, end) for end in ("high", "low"))
    return {
        **{"row": index, "environment": row["environment"], "run": row["run"]},
        **{name: float(number.value) for name, number in components.items()},
        **{"kappa": float(row["kappa"].value), "kappa_recomputed": 1 - distance(components, "value") / 2},
        **{"kappa_lo": 1 - longest / 2, "kappa_hi": 1 - shortest / 2, "agrees": verdict == AGREES, "verdict": verdict},
        **{"I_implied": implied_i(row), "unlike_runs": ", ".join(differing) or None},
        "erratum": " ".join(e["note"] for e in matching) or None,
        "needs": [verdict] * (verdict != AGREES) + differing,
        "explained": [what for e in matching for what in e["explains"]],
    }


def agrees(components: dict, kappa: Printed) -> bool:
    """Return whether rounded components and a rounded kappa are consistent (equation 5); compares squares exactly."""
    low, high = (sum(getattr(number, end) ** 2 for number in components.values()) for end in ("low", "high"))
    return low <= (2 * (1 - kappa.low)) ** 2 and (2 * (1 - kappa.high)) ** 2 <= high


def distance(components: dict, end: str) -> float:
    """Return the Euclidean norm of (U, O, L, I); ``end``: value, low or high of each."""
    return math.sqrt(sum(getattr(number, end) ** 2 for number in components.values()))


def implied_i(row: dict) -> float | None:
    """Return the I that printed kappa, U, O and L imply by equation 5; None if U, O and L alone are too large."""
    square = (2 * (1 - row["kappa"].value)) ** 2 - sum(row[name].value ** 2 for name in ("U", "O", "L"))
    return math.sqrt(square) if square >= 0 else None


def write(rows: list[dict], directory: Path) -> list[Path]:
    """Write kappa_published.csv and .parquet to ``directory``; return the paths."""
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    return tables.write_rows(rows, "kappa_published", lambda suffix: directory / f"kappa_published.{suffix}")
