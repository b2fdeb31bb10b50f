"""`acapella monitor`: counts the packets of `acapella generate` with acapella-monitor (capture/monitor)."""
