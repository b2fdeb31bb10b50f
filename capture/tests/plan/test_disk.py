"""Samples that fit onto a small disk."""

import pytest

from acapella_capture.plan.disk import SYSTEM_GB, longest_sample_s, sized_to_disk
from acapella_capture.settings import parse_settings

RATE_BPS = 8.5e9  # of each receiver
RECORD_BYTES = 200 + 16


def settings(**collect):
    keys = {"collect": {"mean_frame_bytes": 1000} | collect, "capture": {"snaplen": 200}}
    return parse_settings({"testbed": "local"} | keys)


@pytest.mark.parametrize(("compress", "copies"), [(False, 2), (True, 3)])
def test_captures_of_the_longest_sample_fill_the_free_disk(compress, copies):
    """While a capture is compressed, it is on the disk twice."""
    longest = longest_sample_s(settings(compress=compress), 10, receivers=2)
    free = (10 - SYSTEM_GB) * 1e9 - 64e6
    one_s = RATE_BPS / 8 / 1000 * RECORD_BYTES * copies
    assert longest * one_s <= free < (longest + 0.1) * one_s


def test_smaller_disk_shortens_samples_and_fetches_each():
    sized = sized_to_disk(settings(gather="end"), 10, 2)
    assert (sized.capture.sample_s, sized.collect.disk_gb, sized.collect.gather) == (10.7, 10, "sample")


def test_short_samples_keep_their_length():
    assert sized_to_disk(parse_settings({"testbed": "local", "capture": {"sample_s": 3}}), 10, 2).capture.sample_s == 3


def test_no_sample_fits_beside_the_system():
    assert longest_sample_s(settings(), SYSTEM_GB, 2) == 0
