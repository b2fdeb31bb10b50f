"""The capture programs: tcpdump and acapella-dpdk-capture."""
