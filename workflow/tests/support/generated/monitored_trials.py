"""Trials of generated traffic in a campaign: what a monitor counted, and their manifests."""

import shutil
from pathlib import Path

from acapella_testing.generated.generated_tables import write_table
from acapella_testing.new_files import new_directory, write_json

from acapella_core.files import sha256_of


def monitored(directory: Path, sample: str, number: int) -> None:
    """Write what a monitor counted in a trial, and its manifest."""
    flow = {"flow": 0, "name": "small", "src": "10.0.0.1", "dst": "192.0.2.77", "src_port": 5000, "expected": 9}
    first_ns = 10**18 + number
    rows = {
        "monitor_ports": {"name": sample, "received": 9 - number, "first_ns": first_ns},
        "monitor_flows": flow | {"unique": 9 - number, "lost": number, "latency_mean_ns": 1 / 3, "clock_set": False},
        "monitor_histograms": {"flow": 0, "measure": "gap", "bucket": 7, "packets": 8},
        "monitor_intervals": {"begin_ns": first_ns, "length_ns": 10**6, "packets": 9 - number},
        "monitor_clocks": {"points": 3, "from_ns": first_ns, "rate_ppm": 0.5, "corrected": False},
    }
    own, files = new_directory(directory / "generated" / sample), []
    for name, row in rows.items():
        write_table(own, name, [row])
        path = shutil.move(own / "tables" / f"{name}.parquet", own / f"{name}.parquet")
        files.append({"file": path.name, "sha256": sha256_of(path)})
    shutil.rmtree(own / "tables")
    write_json(directory / "raw" / f"{sample}.json", {"generated": {"files": files}})
