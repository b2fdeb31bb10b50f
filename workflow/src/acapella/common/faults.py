"""Describes faults of capture files, and lists those that invalidate a result."""

# Faults that invalidate a result. Frames that were read may be corrupt, because a checksum is only verified at the end,
# or frames in the file were not read. A file that is only truncated contains no further frames.
DAMAGING = (
    "bad_compression",
    "decompression_limit",
    "bad_caplen",
    "bad_pseudo_header",
    "bad_block",
    "bad_version",
    "too_many_interfaces",
)


def describe_fault(metadata: dict) -> str:
    """Return a sentence with the place and the reason of a fault in a file, and the number of bytes not read."""
    data = "" if metadata["compression"] == "none" else " of the decompressed data"
    text = f"at byte {metadata['file_issue_offset']}{data}: {metadata['file_issue_detail']}"
    if unread := metadata["file_unread_bytes"]:
        text += f"; the {unread} bytes from there to the end were not read"
    return text
