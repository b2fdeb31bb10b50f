"""Transfer experiments: iperf3's JSON, comparison with the wire, tables, and prediction of max-min fair rates."""
