"""Figures of a campaign, one module each."""
