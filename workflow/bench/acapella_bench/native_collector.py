"""What plain_collector says, by the native core: python -m acapella_bench.native_collector REPORTS."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acapella_core.collector import Collector, Options


def main(path: str) -> None:
    """The same sums."""
    with Collector(options=Options(format=1)) as collector:
        collector.feed_reports(np.fromfile(path, np.uint8))
        flows = pa.Table.from_batches(collector.flow_batches())
    names = ("last_ns", "bytes", "packets", "acknowledged_bytes", "iat_ns")
    print(json.dumps({"flows": [len(flows), *(pc.sum(flows[name]).as_py() for name in names)]}))


if __name__ == "__main__":
    main(sys.argv[1])
