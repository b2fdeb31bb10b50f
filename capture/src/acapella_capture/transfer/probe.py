"""Measures an emulated link: `send` fills its queue with UDP, `receive` prints arrivals, `rtt` prints round-trip times.

    probe.py receive PORT SECONDS
    probe.py send ADDRESS PORT RATE_BPS BYTES SOURCE_PORT
    probe.py rtt ADDRESS PORT SOURCE_PORT NUMBER

This script runs on nodes, where only Python's standard library is installed. Each datagram contains its number, its
send time, and the send time of its predecessor. Arrival times are kernel timestamps. The clocks of sender and receiver
may differ by a constant.
"""

import errno
import json
import socket
import struct
import sys
import time

HEADER = struct.Struct("!QQQ")  # number, send time, and send time of the predecessor, in ns
HEADERS_BYTES = 42  # Ethernet, IPv4, UDP
FRAME = 1514
SO_TIMESTAMPNS = 35
END_MARKS = 20  # copies of the end mark; the first ones may be lost in the full queue
QUIET_S = 2.0
FREE_S = 20.0


def send(address, port, rate_bps, total, source_port):
    """Send a number of bytes at a rate, then copies of the end mark, so that at least one fits into the queue."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("", source_port))
    link.connect((address, port))
    payload = bytes(FRAME - HEADERS_BYTES - HEADER.size)
    start, previous = time.monotonic_ns(), 0
    for number in range(max(1, total // FRAME)):
        due = start + number * FRAME * 8 * 10**9 // rate_bps  # no bursts: a queue may hold only two frames
        while time.monotonic_ns() < due:
            pass
        now = time.time_ns()
        link.send(HEADER.pack(number, now, previous) + payload)
        previous = now
    for _ in range(END_MARKS):
        time.sleep(0.02)
        try:
            link.send(HEADER.pack(2**64 - 1, time.time_ns(), previous))
        except ConnectionRefusedError:  # the receiver has exited, so it has received the mark
            return


def receive(port, seconds):
    """Print arrivals as JSON: [[number, sent_ns, arrived_ns, previous_ns], ...], until the end mark or silence."""
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (33, socket.SO_RCVBUF):  # 33: SO_RCVBUFFORCE, which needs CAP_NET_ADMIN
        try:
            link.setsockopt(socket.SOL_SOCKET, option, 64 << 20)
            break
        except OSError:
            continue
    link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    link.bind(("", port))
    print("listening", file=sys.stderr, flush=True)
    link.settimeout(seconds)
    arrivals = []
    while True:
        try:
            data, control, _, _ = link.recvmsg(2048, 256)
        except TimeoutError:
            break
        link.settimeout(QUIET_S)
        number, sent, previous = HEADER.unpack_from(data)
        if number == 2**64 - 1:
            break
        stamp = next(value for _, kind, value in control if kind == SO_TIMESTAMPNS)
        stamp_s, rest_ns = struct.unpack("=qq", stamp[:16])
        arrivals.append([number, sent, stamp_s * 10**9 + rest_ns, previous])
    json.dump(arrivals, sys.stdout)


def bind(link, port):
    """Bind a socket to a port. The port of a killed iperf3 is in use until the kernel has sent its last bytes."""
    end = time.monotonic() + FREE_S
    while True:
        try:
            link.bind(("", port))
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
        time.sleep(0.1)


def round_trips(address, port, source_port, number):
    """Print the round-trip times in ns, as JSON, of connections to a port on which no program listens.

    The routers select paths by port, so the path is the same as for a flow with these ports. Ping has no ports.
    """
    found = []
    for _ in range(number):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bind(link, source_port)
            link.settimeout(QUIET_S)
            start = time.monotonic_ns()
            try:
                link.connect((address, port))
            except ConnectionRefusedError:
                found.append(time.monotonic_ns() - start)
            except TimeoutError:
                continue
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]), float(sys.argv[3]))
    elif sys.argv[1] == "rtt":
        round_trips(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        send(sys.argv[2], *map(int, sys.argv[3:7]))
