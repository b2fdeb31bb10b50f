"""Frames and captures for tests."""
