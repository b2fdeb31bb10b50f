"""Publish a campaign without payload and without original addresses."""
