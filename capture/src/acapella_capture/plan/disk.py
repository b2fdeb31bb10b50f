"""Shortens samples if the disk of a listening node is smaller than requested."""

import math
from dataclasses import replace

from ..settings import Settings
from .overload import TCPDUMP_BPS
from .samples import RECORD_BYTES

GB, MB = 10**9, 10**6
SYSTEM_GB = 5  # assumed for the image and the packages that are installed; the watchdog measures the free space


def longest_sample_s(settings: Settings, disk_gb: int, receivers: int) -> float:
    """Return the longest sample, in s, that fits onto a disk if all receivers get the rate that tcpdump captures.

    The captures of all receivers are on the disk at the same time. Compressing, anonymizing or digesting writes a
    second file, which is not larger, for one capture at a time.
    """
    capture, collect = settings.capture, settings.collect
    frames_per_s = TCPDUMP_BPS / 8 / collect.mean_frame_bytes
    bytes_per_s = frames_per_s * (min(capture.snaplen, collect.mean_frame_bytes) + RECORD_BYTES[capture.format])
    copies = receivers + (collect.compress or settings.preprocess.anonymize or collect.digest_on == "node")
    free_bytes = (disk_gb - SYSTEM_GB) * GB - collect.disk_reserve_mb * MB
    return math.floor(10 * max(0, free_bytes) / (bytes_per_s * copies)) / 10


def sized_to_disk(settings: Settings, disk_gb: int, receivers: int) -> Settings:
    """Return the settings for nodes with at most this disk: shorter samples, each fetched before the next one."""
    disk_gb = min(disk_gb, settings.collect.disk_gb)
    sample_s = min(settings.capture.sample_s, longest_sample_s(settings, disk_gb, receivers))
    return replace(
        settings,
        capture=replace(settings.capture, sample_s=sample_s),
        collect=replace(settings.collect, disk_gb=disk_gb, gather="sample"),
    )
