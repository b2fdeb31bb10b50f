"""Sampling with few permissions: at the nodes of the user's slice, or with mirrors within it."""
