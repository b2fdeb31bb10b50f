"""Support for the Snakefile and the rules: configuration, code digests, and failed jobs."""
