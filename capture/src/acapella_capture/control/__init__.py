"""Runs a collection: one thread per site, samples, captures, manifests and outcomes."""
