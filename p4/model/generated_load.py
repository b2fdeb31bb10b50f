#!/usr/bin/env python3
"""Write a capture of many short TCP connections with evenly spread starts, as a load for the slots of a data plane.

    p4/model/generated_load.py --connections 150000 --seconds 30 --seed 1 -o load.pcap

A connection has a handshake without loss, a request, and one to four response segments. Then 80 % of the connections
end with a FIN of each side, 10 % end with an RST, and 10 % stop sending. One connection in ten pauses for up to 8 s
before its end. One response segment in fifty is sent twice. Frames contain 54 bytes, Ethernet to TCP; lengths on the
wire include the payload. The same arguments produce the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

FIN, SYN, RST, ACK = 1, 2, 4, 16
START_NS = 1_700_000_000_000_000_000
CLIENTS, SERVERS, SERVER_PORT = 0x0A000000, 0x0A800000, 443
KEPT = 54  # Ethernet 14, IPv4 20, TCP 20
REQUEST, SEGMENT = 200, 1448
RECORD = np.dtype(
    {
        "seconds": ("<u4", 0),
        "ns": ("<u4", 4),
        "kept": ("<u4", 8),
        "wire": ("<u4", 12),
        "dst_mac": ("u1", 21),
        "src_mac": ("u1", 27),
        "type": (">u2", 28),
        "version": (">u2", 30),
        "length": (">u2", 32),
        "protocol": (">u2", 38),
        "checksum": (">u2", 40),
        "src": (">u4", 42),
        "dst": (">u4", 46),
        "src_port": (">u2", 50),
        "dst_port": (">u2", 52),
        "seq": (">u4", 54),
        "ack": (">u4", 58),
        "flags": (">u2", 62),
        "window": (">u2", 64),
        "rest": (">u4", 66),
    }
)
PCAP_HEADER = np.array([0xA1B23C4D, 0x00040002, 0, 0, 65535, 1], "<u4").tobytes()


def _checksum(frames: np.ndarray) -> np.ndarray:
    """Return the checksums of the IPv4 headers (RFC 1071)."""
    total = sum(frames[name].astype(np.uint64) for name in ("version", "length", "protocol"))
    for name in ("src", "dst"):
        total += (frames[name] >> 16).astype(np.uint64) + (frames[name] & 0xFFFF)
    for _ in range(2):
        total = (total & np.uint64(0xFFFF)) + (total >> np.uint64(16))
    return total ^ np.uint64(0xFFFF)


class _Load:
    """Frames of all connections, generated step by step."""

    def __init__(self, connections: int, seconds: int, seed: int):
        self.random = np.random.default_rng(seed)
        self.count = connections
        self.now = START_NS + np.arange(connections, dtype=np.int64) * (seconds * 10**9) // connections
        self.half = self.random.integers(100_000, 20_000_000, (2, connections))  # ns from the tap to a side and back
        self.next = self.random.integers(0, 2**32, (2, connections), dtype=np.uint64)
        self.parts: list[np.ndarray] = []

    def send(self, chosen: np.ndarray, side: int, flags: int, data: int = 0, *, back: bool = True, again: bool = False):  # noqa: PLR0913
        """Add a segment of the connections `chosen`, after a round trip to its side or 10 us after the previous one."""
        self.now[chosen] += self.half[side][chosen] if back else 10_000
        frames = np.zeros(int(chosen.sum()), RECORD)
        numbers = np.flatnonzero(chosen)
        ends = (CLIENTS + numbers, SERVERS + numbers)
        ports = (32768 + numbers % 28000, np.full(len(numbers), SERVER_PORT))
        frames["seconds"], frames["ns"] = np.divmod(self.now[chosen], 10**9)
        frames["kept"], frames["wire"] = KEPT, KEPT + data
        frames["dst_mac"], frames["src_mac"] = 2 - side, 1 + side
        frames["type"], frames["version"], frames["length"], frames["protocol"] = 0x0800, 0x4500, 40 + data, 0x4006
        frames["src"], frames["dst"] = ends[side], ends[1 - side]
        frames["src_port"], frames["dst_port"] = ports[side], ports[1 - side]
        begin = self.next[side][chosen] - np.uint64(data if again else 0)
        frames["seq"] = begin & np.uint64(0xFFFFFFFF)
        frames["ack"] = (self.next[1 - side][chosen] & np.uint64(0xFFFFFFFF)) if flags & ACK else 0
        frames["flags"], frames["window"] = 0x5000 | flags, 1000
        frames["checksum"] = _checksum(frames)
        if not again:
            self.next[side][chosen] += np.uint64(data + bool(flags & (SYN | FIN)))
        self.parts.append(frames)

    def frames(self) -> np.ndarray:
        """Return all frames in order of their times, a row of bytes each with the layout RECORD."""
        all_connections, draw = np.ones(self.count, bool), self.random.random(self.count)
        self.send(all_connections, 0, SYN, back=False)
        self.send(all_connections, 1, SYN | ACK)
        self.send(all_connections, 0, ACK)
        self.send(all_connections, 0, ACK, REQUEST, back=False)
        segments = self.random.integers(1, 5, self.count)
        for number in range(4):
            chosen = segments > number
            self.send(chosen, 1, ACK, SEGMENT, back=number == 0)
            self.send(chosen & (self.random.random(self.count) < 0.02), 1, ACK, SEGMENT, back=False, again=True)
        self.send(all_connections, 0, ACK)
        pauses = self.random.random(self.count) < 0.1
        self.now[pauses] += self.random.integers(0, 8_000_000_000, int(pauses.sum()))
        closes = draw < 0.8
        self.send(closes, 0, FIN | ACK, back=False)
        self.send(closes, 1, FIN | ACK)
        self.send(closes, 0, ACK)
        self.send((draw >= 0.8) & (draw < 0.9), 0, RST | ACK, back=False)
        # As bytes, because NumPy copies only the fields of a record and leaves padding undefined.
        rows = np.concatenate([part.view(np.uint8).reshape(-1, RECORD.itemsize) for part in self.parts])
        frames = rows.view(RECORD)[:, 0]
        return rows[np.argsort(frames["seconds"].astype(np.int64) * 10**9 + frames["ns"], kind="stable")]


def write_load(path: Path, connections: int, seconds: int = 30, seed: int = 1) -> int:
    """Write the capture; return the number of frames."""
    frames = _Load(connections, seconds, seed).frames()
    with path.open("wb") as out:
        out.write(PCAP_HEADER)
        out.write(frames.tobytes())
    return len(frames)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=150_000, help="two directed flows each (default: 150000)")
    parser.add_argument("--seconds", type=int, default=30, help="seconds within which they begin (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="pcap to write")
    options = parser.parse_args()
    if not 1 <= options.connections <= 1 << 23 or options.seconds < 1 or options.seed < 0:
        parser.error("--connections: 1 to 8388608, --seconds: 1 or more, --seed: 0 or more")
    print(f"{write_load(options.output, options.connections, options.seconds, options.seed)} frames")
    return 0


if __name__ == "__main__":
    sys.exit(main())
