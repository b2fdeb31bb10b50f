"""Sampling with the permissions of a project: at the nodes of its own slice, or with mirrors within it."""
