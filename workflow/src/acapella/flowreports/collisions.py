"""Determines which reports have counts that may be too large because of hash collisions, from the reports alone.

A count-min sketch counts a flow exactly if, in at least one row, no other flow of the epoch uses the same cell (Cormode
and Muthukrishnan 2005). Each flow is reported in each epoch in which it sends (triggers FIRST and PROBE), and a report
contains the whole key and the epoch. The cells of all flows of an epoch are therefore known; they are computed here as
in the program (p4/controls/flowstats/identity.p4, sketch.p4).

Only a flow without a slot can be missing: if other flows without a slot occupy both places where it would be recorded
(p4/controls/flowstats/slotless.p4). If s of n flows have no slot, their digests select at most 2 s places, and both
places are expected to be occupied for n (2 s / slots)^2 flows. A missing flow makes the count of a different flow too
large only if both use the same cells in all rows in which no third flow uses the cell.
"""

import numpy as np

from .program import VALID, field

GOLDEN_RATIO = 0xDEADBEEF  # of rte_jhash
CASTAGNOLI = 0x82F63B78  # polynomial of CRC-32C, reflected
VERSION, PROTO, VLANS, LABELS = 1, 2, 8, 9  # byte offsets in a report of format 2 (schemas/report_formats.tsv)
PORTS, ENDPOINTS, TAGS, EPOCH = 10, 16, 48, 72
HAS_SLOT, HAS_ALL_TAGS = 64, 128  # bits of `valid`
MAX_UNKNOWN = 0.01  # expected number of flows, over all epochs, whose counts a missing flow makes too large


def may_collide(bodies: np.ndarray, *, rows: int, cells: int, slots: int) -> np.ndarray:
    """Return an array of bool, one per report (a row of bytes, format 2): whether its flow may share every cell."""
    if not len(bodies):
        return np.zeros(0, bool)
    epochs = field(bodies, EPOCH, ">u4")
    digest = digests(bodies)
    labels = packed_labels(bodies)
    first, flow_of_report = distinct([epochs, *digest, *labels])
    rows_alone = np.zeros(len(first), np.int64)  # number of rows in which no other flow uses the flow's cell
    for row in range(rows):
        cell = row_hash(row, [part[first] for part in (*digest, *labels)]) & np.uint32(cells - 1)
        cells_of_epochs = epochs[first].astype(np.uint64) << np.uint64(32) | cell
        _, cell_index, counts = np.unique(cells_of_epochs, return_inverse=True, return_counts=True)
        rows_alone += counts[cell_index] == 1
    valid = field(bodies, VALID, ">u2")
    without_slot = np.zeros(len(first), bool)
    without_slot[flow_of_report[(valid & HAS_SLOT) == 0]] = True
    unknown = uncertain_epochs(
        epochs[first], without_slot, np.where(rows_alone, float(cells) ** -rows_alone, 0.0), slots
    )
    unknown = np.union1d(unknown, epochs[(valid & HAS_ALL_TAGS) == 0])
    return (rows_alone == 0)[flow_of_report] | np.isin(epochs, unknown)


def distinct(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each distinct row, and for each row the number of the distinct row that it equals."""
    order = np.lexsort(columns[::-1])
    new = np.ones(len(order), bool)
    new[1:] = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def uncertain_epochs(epochs: np.ndarray, without_slot: np.ndarray, exposed: np.ndarray, slots: int) -> np.ndarray:
    """Return the epochs in which a missing flow may make counts too large; the arrays have a row per epoch and flow.

    ``exposed``: the probability that one missing flow makes the flow's counts too large. In all other epochs together,
    at most MAX_UNKNOWN such flows are expected, so there are none with a probability of at least 99 % (Markov).
    """
    epoch_numbers, index = np.unique(epochs, return_inverse=True)
    flows, slotless = np.bincount(index), np.bincount(index, without_slot)
    unknown = flows * (2 * slotless / slots) ** 2 * np.bincount(index, exposed)
    order = np.argsort(unknown)
    return epoch_numbers[order][np.cumsum(unknown[order]) > MAX_UNKNOWN]


def digests(bodies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return CRC and jhash of the key without labels: addresses, ports, version, protocol, VLAN tags."""
    count = bodies[:, VLANS]
    key = np.zeros((len(bodies), 48), np.uint8)
    key[:, :32] = bodies[:, ENDPOINTS : ENDPOINTS + 32]
    key[:, 32:36] = bodies[:, PORTS : PORTS + 4]
    key[:, 36], key[:, 37], key[:, 38] = bodies[:, VERSION], bodies[:, PROTO], count
    for tags in range(1, 5):  # the innermost in the last two bytes
        rows = count == tags
        key[rows, 48 - 2 * tags :] = bodies[rows, TAGS : TAGS + 2 * tags]
    return crc32c(key), jhash(key.view("<u4"))


def packed_labels(bodies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return three MPLS labels and their number in 64 bits, and the fourth label."""
    count = bodies[:, LABELS].astype(np.uint64)
    first, second, third, fourth = (field(bodies, TAGS + 8 + 4 * index, ">u4") for index in range(4))
    shift = [np.uint64(bits) for bits in (44, 24, 4)]
    packed = (
        first.astype(np.uint64) << shift[0] | second.astype(np.uint64) << shift[1] | third.astype(np.uint64) << shift[2]
    )
    return np.where(count, packed | count, 0).astype(np.uint64), np.where(count, fourth, 0).astype(np.uint32)


def row_hash(row: int, parts: list[np.ndarray]) -> np.ndarray:
    """Return the hash that selects a flow's cell in a row; parts: CRC, jhash, labels, fourth label."""
    crc, jhash_value, labels, fourth = parts
    high, low = (labels >> np.uint64(32)).astype(np.uint32), labels.astype(np.uint32)
    words = np.stack([np.full(len(crc), row, np.uint32), crc, jhash_value, high, low, fourth], axis=1)
    return jhash(words.byteswap().view("<u4"))


def crc32c(row_bytes: np.ndarray) -> np.ndarray:
    """Return the CRC-32C of each row of bytes as computed by rte_hash_crc: initial value 0, not inverted."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = table >> np.uint32(1) ^ np.where(table & 1, np.uint32(CASTAGNOLI), np.uint32(0))
    value = np.zeros(len(row_bytes), np.uint32)
    for column in row_bytes.T:
        value = value >> np.uint32(8) ^ table[(value ^ column) & np.uint32(255)]
    return value


def jhash(words: np.ndarray) -> np.ndarray:
    """Return Bob Jenkins' lookup3 (`hashlittle`) of each row of little-endian words, a multiple of three of them."""
    a = np.full(len(words), GOLDEN_RATIO + 4 * words.shape[1], np.uint32)
    b, c = a.copy(), a.copy()
    for start in range(0, words.shape[1], 3):
        a, b, c = a + words[:, start], b + words[:, start + 1], c + words[:, start + 2]
        if start + 3 == words.shape[1]:
            break
        for bits in (4, 6, 8, 16, 19, 4):
            a = a - c ^ rotated(c, bits)
            c = c + b
            a, b, c = b, c, a
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - rotated(b, bits)
        a, b, c = b, c, a
    return b


def rotated(value: np.ndarray, bits: int) -> np.ndarray:
    """Return 32-bit words rotated left."""
    return value << np.uint32(bits) | value >> np.uint32(32 - bits)
