"""Run P4 programs on this machine."""
