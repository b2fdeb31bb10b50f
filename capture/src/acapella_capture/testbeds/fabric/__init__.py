"""Testbed `fabric`: slices, port mirrors and listening nodes on FABRIC."""
