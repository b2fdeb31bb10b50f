"""Runs of the workflow, of stages and of clusters in tests."""
