"""Compare acaps with tshark, frame by frame."""
