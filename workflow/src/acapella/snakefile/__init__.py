"""Support for the Snakefile and the rules: configuration, code digests, failures of jobs."""
