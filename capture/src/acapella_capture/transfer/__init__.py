"""Controlled transfers over a slice with emulated links: `acapella transfer`."""
