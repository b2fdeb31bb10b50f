"""Write the tables of many synthetic weekly campaigns, as input of a dashboard. They depend only on the arguments.

.venv/bin/python workflow/tests/support/generated/generated_campaigns.py /tmp/results 500
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from acapella_testing.generated.generated_tables import write_table
from acapella_testing.new_files import write_file, write_json

from acapella_core.files import sha256_of

WEEK_NS = 7 * 86_400 * 10**9
FIRST_NS = 1_578_268_800_000_000_000  # 2020-01-06, a Monday
SAMPLE_NS = 20 * 10**9
SITES = ("STAR", "TACC", "UTAH", "MICH", "MASS")


def write_rows(directory: Path, name: str, rows: list[dict]) -> dict[str, str]:
    """Write tables/NAME.parquet and .csv; return the checksum of the first one, by its path."""
    write_table(directory, name, rows)
    file = f"tables/{name}.parquet"
    return {file: sha256_of(directory / file)}


def write_provenance(directory: Path, stage: str, outputs: dict[str, str], *, pseudonyms: bool = False) -> None:
    """Write provenance/STAGE.json with the checksums of tables."""
    content = {"parameters": {"pseudonyms": pseudonyms}, "outputs": outputs}
    write_json(directory / "provenance" / f"{stage}.json", content)


def write_campaign(  # noqa: PLR0913
    directory: Path,
    start_ns: int,
    *,
    sites: Sequence[str] = SITES[:2],
    ports=2,
    samples=1,
    seed=0,
    pseudonyms=False,
    kappa=(),
) -> Path:
    """Write the tables of a campaign, its provenance, and an empty report. ``kappa``: a mean per environment."""
    draw = random.Random(seed)
    places = [(site, f"port{n + 1}", f"{site}-{n}-{i}") for site in sites for n in range(ports) for i in range(samples)]
    quality = [quality_row(place, start_ns + k * SAMPLE_NS, draw) for k, place in enumerate(places)]
    flows = [dict(zip(("site", "port", "sample"), place, strict=True)) for place in places]
    flows = [row | {"flows": draw.randrange(20, 900)} for row in flows]
    outputs = write_rows(directory, "capture_quality", quality) | write_rows(directory, "flows_per_sample", flows)
    write_provenance(directory, "process", outputs, pseudonyms=pseudonyms)
    if kappa:
        rows = [{"place": n + 1, "environment": f"E{n}", "kappa": value} for n, value in enumerate(kappa)]
        write_provenance(directory, "consistency", write_rows(directory, "consistency_environments", rows))
    write_file(directory / "report.html", f"<!DOCTYPE html><title>{seed}</title>")
    return directory


def quality_row(place: tuple[str, str, str], start_ns: int, draw: random.Random) -> dict:
    """Return a row of capture_quality; one in eight samples lost frames, one in twelve has no counters."""
    site, port, sample = place
    frames = int(draw.lognormvariate(9, 1))
    lost = None if draw.random() < 1 / 12 else int(frames * draw.choice((0, 0, 0, 0, 0, 0, 0, 0.004)))
    wire_bytes = frames * draw.randrange(200, 1400)
    return {
        **{"site": site, "port": port, "sample": sample, "frames": frames, "wire_bytes": wire_bytes},
        **{"lost_frames": lost, "loss_share": None if lost is None else lost / ((lost + frames) or 1)},
        **{"actual_start_ns": start_ns, "actual_end_ns": start_ns + SAMPLE_NS, "duration_ns": SAMPLE_NS},
        **{"misdated": False, "mirror_verdict": "clear", "engine": "hybrid"},
        "loss_stages_known": 0 if lost is None else 4,
    }


def write_campaigns(results: Path, number: int, *, sites: Sequence[str] = SITES, ports: int = 3) -> Path:
    """Write weekly campaigns of changing sites, every tenth with trials, and their outcomes; return the directory."""
    lines = ["campaign,started,site,outcome,reason,samples"]
    for week in range(number):
        name = f"week-{week + 1:03d}"
        present = [site for k, site in enumerate(sites) if (week + k) % 7]
        kappa = (0.6 + 0.3 * (week % 40) / 40, 0.95) if week % 10 == 0 else ()
        write_campaign(results / name, FIRST_NS + week * WEEK_NS, sites=present, ports=ports, seed=week, kappa=kappa)
        lines += [f"{name},{week:06d},{site},{'success' if site in present else 'failed'},,{ports}" for site in sites]
    write_file(results / "outcomes.csv", "\n".join(lines) + "\n")
    return results


if __name__ == "__main__":
    write_campaigns(Path(sys.argv[1]), int(sys.argv[2]))
