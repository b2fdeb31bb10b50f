"""Convert captures to acaps and flow tables."""
