"""Test helpers: generated captures and campaigns, naive reference implementations, ways to run stages."""
