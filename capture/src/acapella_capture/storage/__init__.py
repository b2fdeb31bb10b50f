"""What keeps a writer from the disk: latency of its writes while the page cache fills (Patchwork, appendix B)."""


class NotMeasurable(Exception):
    """This cannot be measured here; the text says why, in one line."""
