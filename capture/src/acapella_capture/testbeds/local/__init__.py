"""Testbed `local`: network namespaces, switches and traffic on this machine."""
