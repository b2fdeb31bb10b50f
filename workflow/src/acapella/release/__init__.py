"""Publish a campaign without payload and without true addresses."""
