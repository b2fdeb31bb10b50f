"""Receive flow reports over RoCEv2 and aggregate them into flows."""
