"""Helpers of several tests: made captures, naive versions, ways to run stages."""
