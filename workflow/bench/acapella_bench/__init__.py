"""`make bench`: compare speed and size with other programs; print the results and save them as JSON."""
