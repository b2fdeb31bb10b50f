"""Captures in object storage, or on a mounted share, that Snakemake fetches."""
