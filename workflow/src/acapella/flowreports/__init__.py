"""Flow reports of a P4 program, compared with the digest."""
