"""How alike two or more trials of the same traffic are: from the core's integers to U, O, L, I and kappa, in words."""
