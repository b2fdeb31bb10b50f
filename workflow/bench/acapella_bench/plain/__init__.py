"""Simple implementations in Python, with which benchmarks compare the speed of the native core.

They are programs as a user would write them, with algorithms fast enough for a million packets or reports. They are not
the references of the tests (acapella_testing.oracles), which follow the definitions in quadratic time, or check every
field of every report. workflow/tests/project/test_bench.py compares both on small inputs.
"""
