"""Reports of a few flows, and the control file of the program that sends them."""

from acapella_testing.frames.report_frames import BYTES, TRIGGER, VALID, frame, report

SLOTS, BASE, NUMBER, KEY = 8, 0x10000, 0x11, 0x1234
CONTROL = f"""\
register rows 0 4
register qp_number 0 {NUMBER} # a comment
register qp_psn 0 5
register qp_base 0 {BASE:#x}
register qp_address 0 {BASE:#x}
register qp_end 0 {BASE + SLOTS * BYTES[2]}
register qp_key 0 {KEY}
"""


def reports(count: int, flows: int = 3) -> list[bytes]:
    """Return frames with reports of the flows in turn, 0.4 s apart.

    Each report of flow n (from 1) adds a packet of 1,000 n bytes.
    """
    valid = VALID["rtt_syn"] | VALID["rtt_ack"] | VALID["tags"]
    common = {"src": b"\x0a\0\0\1", "dst": b"\x0a\0\0\2", "dst_port": 80, "trigger": TRIGGER["ack"], "valid": valid}
    created = []
    for n in range(count):
        flow, packets = n % flows, n // flows + 1
        fields = {"src_port": 1000 + flow, "report_sequence": n + 1, "timestamp": 10**18 + n * 400_000_000}
        fields |= {"bytes": 1000 * packets * (1 + flow), "packets": packets}
        fields |= {"rtt_syn": 1_000_000 * (1 + flow), "rtt_ack": 500_000}
        place = {"psn": 5 + n, "address": BASE + n % SLOTS * BYTES[2], "queue_pair": NUMBER, "key": KEY}
        created.append(frame(report(2, **common, **fields), **place))
    return created
