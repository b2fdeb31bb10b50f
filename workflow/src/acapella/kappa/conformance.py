"""Recompute every kappa that the CHOIR paper printed from the components printed beside it.

Writes kappa_published.csv and .parquet (schemas/tables/kappa_published.yaml) into a directory. A printed number stands
for every number that rounds to it, so each row gets an interval and a verdict; known errata stand beside their rows.
Fails where a row disagrees and no erratum explains it, where an erratum is about other numbers or explains what nobody
asks, and where a row is missing. The numbers and errata are in workflow/conformance/.
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
    """Add `acapella conformance`."""
    parser = subparsers.add_parser(
        "conformance", help="recompute every kappa that the CHOIR paper printed", description=__doc__
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIRECTORY", help="where the table goes")
    printed, errata = DIRECTORY / "kappa_printed.csv", DIRECTORY / "kappa_errata.yaml"
    parser.add_argument("--printed", default=printed, metavar="CSV", help=f"printed numbers (default: {printed.name})")
    parser.add_argument("--errata", default=errata, metavar="YAML", help=f"known errata (default: {errata.name})")
    return parser


def run(args) -> None:
    """Write the table and count the verdicts. Raises UserError where errata and numbers do not fit."""
    printed, known = read_printed(Path(args.printed)), read_errata(Path(args.errata))
    rows = judged(printed, known["errata"])
    beneath.protect(args.output)
    write(rows, Path(args.output))
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (AGREES, LOOSELY, DISAGREES)}
    told = f"{counts[AGREES]} agree, {counts[LOOSELY]} agree loosely, {counts[DISAGREES]} disagree"
    print(f"{args.output}: {len(rows)} printed kappas: {told}")
    errata_apply(printed, rows, known, args)
    for row in rows:
        unexplained(row, args)


def unexplained(row: dict, args) -> None:
    """Raise UserError for the first thing in the row that no erratum explains."""
    where = f"{row['environment']}, run {row['run']}"
    fix = f"mend the number or explain it in {args.errata}"
    for need in row["needs"]:
        if need in row["explained"]:
            continue
        allowed = f"its components allow {row['kappa_lo']:.6f} to {row['kappa_hi']:.6f}"
        if need == DISAGREES:
            text = f"kappa {row['kappa']} is printed, {allowed}"
        elif need == LOOSELY:
            text = f"kappa {row['kappa']} is printed and agrees with the runs' means alone; {allowed}"
        else:
            text = f"the printed {need} is not the mean of the printed runs"
        raise UserError(f"{where}: {text}", where=args.printed, fix=fix)


def errata_apply(printed: list[dict], rows: list[dict], known: dict, args) -> None:
    """Raise UserError where rows and environments differ, or an erratum is about other numbers or explains too much."""
    places = [(row["environment"], row["run"]) for row in printed]
    wanted = [(environment, run) for environment, runs in known["environments"].items() for run in runs]
    for place in (*wanted, *places):
        if places.count(place) != 1 or place not in wanted:
            times = f"{places.count(place)} rows of it, {wanted.count(place)} in {args.errata}"
            raise UserError(f"{', run '.join(place)}: {times}", where=args.printed, fix="have one of each")
    for erratum in known["errata"]:
        for run, numbers in erratum["printed"].items():
            place = (erratum["environment"], run)
            where = f"{', run '.join(place)}: the erratum"
            if place not in places:
                raise UserError(f"{where} has no such row", where=args.errata, fix="mend or remove it")
            at = places.index(place)
            changed = [name for name in NUMBERS if printed[at][name] != numbers[name]]
            if changed:
                raise UserError(f"{where} is about another {', '.join(changed)}", where=args.errata, fix="look again")
            idle = [what for what in erratum["explains"] if what not in rows[at]["needs"]]
            if idle:
                raise UserError(
                    f"{where} explains {', '.join(idle)}, which is not so", where=args.errata, fix="mend it"
                )


@dataclass(frozen=True)
class Printed:
    """A number as printed, and the ends of what rounds to it, exact. A printed 0 is 0: it says that nothing differs."""

    value: Fraction
    low: Fraction
    high: Fraction

    @classmethod
    def of(cls, text: str) -> "Printed":
        """``2.62e-6`` is 2.615e-6 to 2.625e-6: half a unit of its last digit to either side."""
        number = Decimal(text)
        half = Fraction(10) ** number.as_tuple().exponent / 2 if number else Fraction(0)
        return cls(Fraction(number), max(Fraction(number) - half, Fraction(0)), Fraction(number) + half)

    def meets(self, other: "Printed") -> bool:
        """Whether some number is in both."""
        return self.low <= other.high and other.low <= self.high


def mean_of(numbers: list[Printed]) -> Printed:
    """The mean of numbers, each anywhere in what rounds to it."""
    ends = ((getattr(number, end) for number in numbers) for end in ("value", "low", "high"))
    return Printed(*(sum(end) / len(numbers) for end in ends))


def read_printed(path: Path) -> list[dict]:
    """Rows of environment, run, and a Printed for U, O, L, I and kappa. Raises UserError for what is no such table."""
    wanted = ["environment", "run", *NUMBERS]
    no_table = f"not a table of {', '.join(wanted)}"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        if not rows:
            raise UserError(no_table, where=path)
        return [{key: row[key] if key in wanted[:2] else Printed.of(row[key]) for key in wanted} for row in rows]
    except (KeyError, TypeError, ArithmeticError, UnicodeDecodeError) as error:
        raise UserError(no_table, where=path) from error


def read_errata(path: Path) -> dict:
    """``environments`` (their runs) and ``errata``: environment, printed (by run), explains, note of each.

    Raises UserError for what is no such file.
    """
    try:
        known = yaml.safe_load(path.read_text(encoding="utf-8"))
        errata = [
            {
                **{"environment": erratum["environment"], "explains": list(erratum["explains"])},
                **{"printed": {run: numbers_of(text) for run, text in erratum["printed"].items()}},
                "note": erratum["note"].strip(),
            }
            for erratum in known["errata"]
        ]
        return {"environments": {name: list(runs) for name, runs in known["environments"].items()}, "errata": errata}
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError("not a file of errata: environments, errata", where=path) from error


def numbers_of(text: str) -> dict:
    """A Printed for U, O, L, I and kappa, from the five in this order. Raises ValueError."""
    return {name: Printed.of(number) for name, number in zip(NUMBERS, text.split(), strict=True)}


def judged(printed: list[dict], errata: list[dict]) -> list[dict]:
    """The rows of kappa_published; each with what `needs` an erratum (verdict, means), and what is `explained`."""
    runs = {}
    for row in printed:
        if row["run"] != MEAN:
            runs.setdefault(row["environment"], []).append(row)
    return [judge(place, row, runs.get(row["environment"], []), errata) for place, row in enumerate(printed, 1)]


def judge(place: int, row: dict, runs: list[dict], errata: list[dict]) -> dict:
    """One row of the table. ``runs`` are the rows of the same environment that are no mean."""
    components = {name: row[name] for name in COMPONENTS}
    verdict = AGREES if agrees(components, row["kappa"]) else DISAGREES
    unlike = []
    if row["run"] == MEAN and runs:
        means = {name: mean_of([run[name] for run in runs]) for name in NUMBERS}
        if verdict == DISAGREES and agrees({name: means[name] for name in COMPONENTS}, row["kappa"]):
            verdict = LOOSELY
        unlike = [name for name, mean in means.items() if not mean.meets(row[name])]
    notes = [e for e in errata if e["environment"] == row["environment"] and row["run"] in e["printed"]]
    longest, shortest = (distance(components, end) for end in ("high", "low"))
    return {
        **{"row": place, "environment": row["environment"], "run": row["run"]},
        **{name: float(number.value) for name, number in components.items()},
        **{"kappa": float(row["kappa"].value), "kappa_recomputed": 1 - distance(components, "value") / 2},
        **{"kappa_lo": 1 - longest / 2, "kappa_hi": 1 - shortest / 2, "agrees": verdict == AGREES, "verdict": verdict},
        **{"I_implied": implied(row), "unlike_runs": ", ".join(unlike) or None},
        "erratum": " ".join(e["note"] for e in notes) or None,
        "needs": [verdict] * (verdict != AGREES) + unlike,
        "explained": [what for e in notes for what in e["explains"]],
    }


def agrees(components: dict, kappa: Printed) -> bool:
    """Whether components and kappa can both be what was rounded (equation 5), decided without a square root."""
    least, most = (sum(getattr(number, end) ** 2 for number in components.values()) for end in ("low", "high"))
    return least <= (2 * (1 - kappa.low)) ** 2 and (2 * (1 - kappa.high)) ** 2 <= most


def distance(components: dict, end: str) -> float:
    """The length of (U, O, L, I), each at one end of what rounds to it."""
    return math.sqrt(sum(getattr(number, end) ** 2 for number in components.values()))


def implied(row: dict) -> float | None:
    """The I that printed kappa, U, O and L ask for; None where U, O and L alone are too long."""
    rest = (2 * (1 - row["kappa"].value)) ** 2 - sum(row[name].value ** 2 for name in ("U", "O", "L"))
    return math.sqrt(rest) if rest >= 0 else None


def write(rows: list[dict], directory: Path) -> list[Path]:
    """Write kappa_published.csv and .parquet into ``directory``; return the paths."""
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    return tables.write_rows(rows, "kappa_published", lambda suffix: directory / f"kappa_published.{suffix}")
