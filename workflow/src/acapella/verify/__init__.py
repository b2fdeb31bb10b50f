"""Comparison of digests with tshark, frame by frame."""
