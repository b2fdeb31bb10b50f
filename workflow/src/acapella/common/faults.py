"""Faults of capture files: which of them damage a result, and how they are described."""

# Ways for a file to end after which the result is wrong: frames that were read may be made up (a checksum that does not
# fit comes last), or frames that are there were not read. A file that is only cut holds no more than what was read.
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
    """Return where and why reading of a file ended, and how much of it was not read."""
    data = "" if metadata["compression"] == "none" else " of the decompressed data"
    text = f"at byte {metadata['file_issue_offset']}{data}: {metadata['file_issue_detail']}"
    if unread := metadata["file_unread_bytes"]:
        text += f"; the {unread} bytes from there to the end were not read"
    return text
