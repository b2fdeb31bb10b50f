"""Makes `os.fsync` return immediately in processes that import this module.

A test cannot cut the power, and waiting for the disk takes longer than most tests compute. test_write_order.py
traces the order of writes in programs with the real function, and test_fault_injection.py makes it fail.
"""

import os


def fsync(_descriptor: int) -> None:
    """Do nothing."""


os.fsync = fsync
