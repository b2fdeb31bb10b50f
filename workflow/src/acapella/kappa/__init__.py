"""Consistency of trials: kappa and its components (CHOIR, sections 4 and 5)."""
