"""Receive flow reports over RoCEv2 and keep their flows."""
