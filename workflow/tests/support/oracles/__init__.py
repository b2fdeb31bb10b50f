"""Slow, plain reference implementations of the core's computations, and comparisons with tshark."""
