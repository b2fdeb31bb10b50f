"""Generates traffic from a model: `acapella generate`.

reading.py parses YAML, headers.py reads the headers of a flow, traffic.py reads its gaps and sizes, and model.py reads
the whole model. compiled.py defines the result. acapella-dpdk-generate (capture/generate) executes it, and expected.py
computes the expected flow table from it, independently of that program.
"""
