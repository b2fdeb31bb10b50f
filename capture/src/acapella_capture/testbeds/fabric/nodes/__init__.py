"""Programs on FABRIC's nodes: packages, builds, captures with DPDK."""
