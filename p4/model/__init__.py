"""Reference models of the P4 programs in Python, written from their descriptions; only for tests."""
