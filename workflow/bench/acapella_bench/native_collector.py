"""Print the results of plain.collector from the native core: python -m acapella_bench.native_collector PATH FILE."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acapella_core.collector import Collector, Options, QueuePair

# acapella-reports: kQueuePair, kKey, kBase and 64 MiB of reports of 192 bytes
PAIR = QueuePair(number=0x11, key=0x1234, base=0x7F0000000000, slots=(64 << 20) // 192, psn=0)


def main(path: str, name: str) -> None:
    """Print the number of flows and the sums that plain.collector prints."""
    options = Options(format=1 if path == "published-series" else 2)
    with tempfile.TemporaryDirectory() as directory:
        series = None if path == "ring" else Path(directory) / "series.parquet"
        with Collector([PAIR], options, series=series) as collector:
            if path == "default":
                collector.feed(name)
            else:
                collector.feed_reports(np.fromfile(name, np.uint8))
            collector.finish()
            flows = pa.Table.from_batches(collector.flow_batches())
    names = ("last_ns", "bytes", "packets", "acknowledged_bytes", "iat_ns")
    print(json.dumps({"flows": [len(flows), *(pc.sum(flows[name]).as_py() for name in names)]}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
