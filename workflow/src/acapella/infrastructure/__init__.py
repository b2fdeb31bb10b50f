"""Infrastructure study of a testbed: switch ports, slices, and rates of ports (Patchwork, section 5)."""
