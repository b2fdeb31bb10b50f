"""Makes `os.fsync` return immediately in processes that import this module.

A test cannot end the power supply, and waiting for the disk takes longer than most tests compute. test_write_order.py
traces the order of writes in programs with the real function, and test_fault_injection.py lets it fail.
"""

import os


def fsync(_descriptor: int) -> None:
    """Do nothing."""


os.fsync = fsync
