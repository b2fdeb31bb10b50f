"""Measures how late the kernel wakes a process that sleeps until a given time, like cyclictest: the noise of the
machine.

    python -m acapella_bench.sending.wakeups SECONDS PROCESSOR

Prints percentiles in us as JSON. The process has the timer slack of acapella-link and a priority one below
acapella-link's, so that it does not disturb that program. It sleeps in clock_nanosleep, so that only the kernel can be
late.
"""

import contextlib
import ctypes
import json
import os
import sys
import time

PRIORITY = 49
PERIOD_NS = 1_000_000
CLOCK_MONOTONIC, TIMER_ABSTIME, PR_SET_TIMERSLACK = 1, 1, 29


class Timespec(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


def measure(seconds: float) -> dict[str, float | bool | int]:
    """Repeatedly sleep until the end of a period of PERIOD_NS; return percentiles of the lateness in us."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_TIMERSLACK, 1)
    realtime = False
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        realtime = True
    late = []
    due = time.monotonic_ns() + PERIOD_NS
    end = due + round(seconds * 1e9)
    while due < end:
        until = Timespec(due // 10**9, due % 10**9)
        libc.clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(until), None)
        now = time.monotonic_ns()
        late.append((now - due) / 1000)
        due += max(1, -(-(now - due) // PERIOD_NS)) * PERIOD_NS  # without the periods that were missed
    late.sort()
    return {
        "realtime": realtime,
        "p50_us": late[len(late) // 2],
        "p99_us": late[len(late) * 99 // 100],
        "max_us": late[-1],
        "count": len(late),
    }


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    print(json.dumps(measure(float(sys.argv[1]))))
