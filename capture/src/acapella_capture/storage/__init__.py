"""Latency of writes to the disk while the page cache fills (Patchwork, appendix B)."""


class NotMeasurable(Exception):
    """The measurement is impossible on this machine; the message is the reason, in one line."""
