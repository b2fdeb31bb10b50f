"""Helpers of the tests in capture/tests: testbeds, captures, processes."""
