"""Slow, plain versions of what the core computes, and comparisons with tshark."""
