"""Figures of a campaign, one module per figure."""
