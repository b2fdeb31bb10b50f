"""Simple implementations in Python, for comparison with the native core."""
