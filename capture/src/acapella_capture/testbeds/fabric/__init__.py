"""Testbed `fabric`: slices, listening nodes and port mirrors on FABRIC."""
