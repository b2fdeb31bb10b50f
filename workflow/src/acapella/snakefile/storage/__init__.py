"""Captures in object storage."""
