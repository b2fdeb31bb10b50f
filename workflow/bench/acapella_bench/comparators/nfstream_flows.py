"""Print the flows that nfstream finds in a capture: nfstream_flows.py CAPTURE.

Runs with the Python of build/nfstream.
"""

import sys

from nfstream import NFStreamer

LONGEST_S = 1_000_000  # no flow is split


def main(capture: str) -> None:
    """Print a line per flow: addresses, protocol, ports, and the packets of both directions."""
    flows = NFStreamer(source=capture, n_meters=1, n_dissections=0, idle_timeout=LONGEST_S, active_timeout=LONGEST_S)
    for flow in flows:
        cells = (flow.src_ip, flow.dst_ip, flow.protocol, flow.src_port, flow.dst_port)
        print(*cells, flow.src2dst_packets, flow.dst2src_packets, sep="|")


if __name__ == "__main__":  # nfstream starts processes
    main(sys.argv[1])
