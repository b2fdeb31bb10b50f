"""`make bench`: every comparison of speed and size, side by side in one run, printed and saved as JSON."""
