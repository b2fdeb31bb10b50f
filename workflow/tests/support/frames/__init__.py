"""Frames and captures that tests write."""
