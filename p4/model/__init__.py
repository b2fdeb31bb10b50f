"""What the P4 programs have to do, written a second time, in Python and from their descriptions; for tests alone."""
