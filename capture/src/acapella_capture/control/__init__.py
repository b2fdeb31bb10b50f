"""Runs a collection: a thread per site, samples, their captures, manifests and outcomes."""
