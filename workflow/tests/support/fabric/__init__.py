"""A FABRIC on loopback: its servers, the behaviors of each, and the nodes of slices."""
