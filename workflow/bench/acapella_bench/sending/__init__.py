"""Benchmarks of programs that send or receive packets over virtual links."""
