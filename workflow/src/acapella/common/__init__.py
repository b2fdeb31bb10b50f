"""Shared by the other packages; imports none of them."""
