"""Flow statistics of the P4 program, compared with exact ones."""
