"""Generates traffic from a model: `acapella generate`.

reading.py parses YAML, headers.py reads the headers of a flow, traffic.py its gaps and sizes, and model.py the whole
model. compiled.py contains the result, which acapella-dpdk-generate (capture/generate) executes, and from which
expected.py computes the expected flow table independently of that program.
"""
