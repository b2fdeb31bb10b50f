"""Creates the trials in this directory: the same 600 packets, replayed three times. Each run creates identical files.

`a` is the baseline. `b` differs from it by jitter. `c` has jitter, too, and in its middle a queue overflows: gaps
increase, 12 packets are lost, and two bursts are swapped. Run it as
`.venv/bin/python .test/make_trials.py [DIRECTORY]`.
"""

import gzip
import random
import struct
import sys
from pathlib import Path

START_NS = 1_767_225_600_123_456_789
GAP_NS = 83_331
PACKETS = 600
JITTER_NS = 60


def packet(number: int) -> bytes:
    """Return a frame of 58 bytes with a number in UDP, without checksums (0 means none in UDP over IPv4)."""
    payload = struct.pack(">Q", number) + b"acapella"
    udp = struct.pack(">HHHH", 5000, 5001, 8 + len(payload), 0) + payload
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), number & 0xFFFF, 0, 64, 17, 0)
    return bytes.fromhex("00163e000002 00163e000001 0800") + header + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + udp


def jittered(seed: int) -> list[tuple[int, int]]:
    """Return (ns, number) of each packet; packets are less than JITTER_NS late."""
    draw = random.Random(seed)
    return [(START_NS + number * GAP_NS + draw.randrange(JITTER_NS), number) for number in range(PACKETS)]


def congested(trial: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a trial with a queue in its middle."""
    times = [ns + (40_000 * (number - 300) if 300 <= number < 360 else 0) for ns, number in trial[:360]]
    times += [ns + 2_400_000 for ns, _ in trial[360:]]
    order = list(range(PACKETS))
    order[310:340] = [*order[325:340], *order[310:325]]
    lost = set(range(344, 356))
    return [(ns, number) for ns, number in zip(times, order, strict=True) if number not in lost]


def write(path: Path, trial: list[tuple[int, int]]) -> None:
    """Write a nanosecond pcap, compressed with gzip, without a date."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    for ns, number in trial:
        data = packet(number)
        parts += [struct.pack("<IIII", *divmod(ns, 10**9), len(data), len(data)), data]
    with path.open("wb") as target, gzip.GzipFile("", "wb", fileobj=target, mtime=0) as stream:
        stream.write(b"".join(parts))


def main(directory: Path) -> None:
    """Write all three trials."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "a.pcap.gz", jittered(1))
    write(directory / "b.pcap.gz", jittered(2))
    write(directory / "c.pcap.gz", congested(jittered(3)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "trials")
