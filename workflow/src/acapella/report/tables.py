"""Creates the main tables of the report, with selected columns."""

import shlex

from acapella.campaign.clocks import MIN_TIMESTAMPS
from acapella.common.wording import nanoseconds, natural, percent, scaled
from acapella.figures import restrictions
from acapella.figures.source import ALL, Source

from .warnings import has_pseudonyms

MAX_FLOWS = 20  # top flows shown
MAX_SAMPLES = 400  # samples shown; if there are more, those with the largest losses
UNKNOWN = "?"
EXTRACT = ("Copy frames to a file", False)
EXTRACT_NOTE = " Run the command in the last column in the campaign's directory."
NEEDS_PSEUDONYMS = " It uses the campaign's pseudonyms.tsv, which is not for publication."


def report_tables(source: Source) -> list[dict]:
    """Return the tables of the report. See `table` for their keys."""
    traffic = [top_flows(source), applications(source), ip_versions(source), tcp_control(source)]
    suffix = restrictions.title_suffix(source)
    return [
        *({**table_, "title": table_["title"] + suffix} for table_ in traffic),
        *restrictions_table(source),
        quality(source),
    ]


def number(value: int | None) -> str:
    """Return a count as text; a question mark if it is null."""
    return UNKNOWN if value is None else f"{value:,}"


def table(name: str, title: str, note: str, columns: list[tuple[str, bool]], rows: list[list[str]]) -> dict:
    """Return a table of the page. ``columns`` are pairs of a heading and whether the column contains numbers."""
    return {"name": name, "title": title, "note": note, "columns": columns, "rows": rows}


def top_flows(source: Source) -> dict:
    """Return the table of the largest flows of the campaign."""
    rows = sorted((row for row in source.rows("top_flows") if row["site"] == ALL), key=lambda row: row["rank"])[
        :MAX_FLOWS
    ]
    columns = [("#", True), ("From", False), ("To", False), ("Protocol", False), ("Bytes", True), ("Frames", True)]
    columns += [("Rate", True), ("Duration", True), ("Application", False), ("Seen at", False), ("VLAN", False)]
    columns += [("MPLS", False), ("Tunnels", False)]
    columns += [EXTRACT]
    cells = [
        [
            *(number(row["rank"]), endpoint(row["src"], row["src_port"]), endpoint(row["dst"], row["dst_port"])),
            *(
                PROTOCOLS.get(row["ip_proto"], str(row["ip_proto"])),
                scaled(row["wire_bytes"], "B"),
                number(row["frames"]),
            ),
            "" if row["rate_bps"] is None else scaled(row["rate_bps"], "bit/s"),
            duration(row["duration_ns"]),
            *(row["app"] or "", f"{row['largest_site']} {row['largest_port']}"),
            *(row["vlan"], row["mpls"], tunnels(row["tunnels"])),
            extract("--flow", row["flow_id"], f"flow-{row['rank']}.pcapng"),
        ]
        for row in rows
    ]
    note = (
        "Directed flows by bytes on the wire, stitched across samples, as seen at the site and port listed. Rate: over "
        "the observed time, without gaps between samples. VLAN, MPLS and tunnels: identifiers, the outermost first."
    )
    return table("top_flows", "Largest flows", note + extract_note(source), columns, cells)


def extract_note(source: Source) -> str:
    """Return the note on the column with commands."""
    return EXTRACT_NOTE + (NEEDS_PSEUDONYMS if has_pseudonyms(source.campaign) else "")


def extract(option: str, value: str, output: str) -> str:
    """Return the command that copies frames from their captures, for a shell in the campaign's directory."""
    return f"acapella extract . {option} {shlex.quote(value)} -o {shlex.quote(output)}"


PROTOCOLS = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "ICMPv6", 89: "OSPF", 132: "SCTP"}


TUNNELS = {  # type in schemas/tunnels.tsv: name in the report
    **{"vxlan_vni": "VXLAN VNI", "vxlan_gpe_vni": "VXLAN-GPE VNI", "geneve_vni": "Geneve VNI", "gre_key": "GRE key"},
    **{"nvgre_vsid": "NVGRE VSID", "nvgre_flow_id": "NVGRE FlowID", "pptp_call": "PPTP call", "gtp_teid": "GTP TEID"},
    **{"l2tp_tunnel": "L2TP tunnel", "l2tp_session": "L2TP session", "pppoe_session": "PPPoE session"},
    **{"pbb_isid": "PBB I-SID", "erspan_session": "ERSPAN session"},
}


def tunnels(identifiers: str) -> str:
    """Return the tunnels of a flow as text.

    ``vxlan_vni*5*4/gtp_teid*7*9`` (type, identifier, position of the header) becomes ``VXLAN VNI 5, GTP TEID 7``.
    """
    parts = [part.split("*") for part in identifiers.split("/") if part]
    return ", ".join(f"{TUNNELS.get(kind, kind)} {identifier}" for kind, identifier, *_ in parts)


def endpoint(address: str, port: int | None) -> str:
    """Return address and port: ``10.0.0.1:443``, ``[fd00::1]:443``."""
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def applications(source: Source) -> dict:
    """Return the table of application labels of the campaign."""
    rows = [row for row in source.rows("applications") if row["site"] == ALL]
    rows.sort(key=lambda row: (-row["wire_bytes"], row["app"] or ""))
    columns = [("Application", False), ("Decided by", False), ("Flows", True), ("Frames", True), ("Bytes", True)]
    columns += [("Samples", True)]
    cells = [
        [
            *(row["app"] or "none or undecided", row["app_by"] or "", number(row["flows"]), number(row["frames"])),
            *(scaled(row["wire_bytes"], "B"), number(row["samples"])),
        ]
        for row in rows
    ]
    note = (
        "Flows are counted per sample. Decided by flow: in some flows, the label of some frames was applied to the "
        "whole flow. Formats of content, such as text or images in HTTP, count as the protocol that contains them. "
        "ICMP flows count as icmp or icmpv6, whatever they contain."
    )
    return table("applications", "Applications", note, columns, cells)


def ip_versions(source: Source) -> dict:
    """Return the table of IP versions per site."""
    rows = sorted(source.rows("ip_versions"), key=lambda r: (r["site"] != ALL, natural(r["site"]), r["ip_version"]))
    columns = [("Site", False), ("Innermost network header", False), ("Frames", True), ("Share", True)]
    columns += [("95 % confidence interval", True), ("Bytes", True), ("Samples", True)]
    names = {"4": "IPv4", "6": "IPv6", "none": "not IP"}
    cells = [
        [
            *(site(row), names.get(row["ip_version"], row["ip_version"]), number(row["frames"])),
            *("" if row["share"] is None else percent(row["share"]), interval(row["share_lo"], row["share_hi"])),
            *(scaled(row["wire_bytes"], "B"), number(row["samples"])),
        ]
        for row in rows
    ]
    note = "Confidence intervals: bootstrap over samples, if there are at least 6."
    return table("ip_versions", "IP versions", note, columns, cells)


def tcp_control(source: Source) -> dict:
    """Return the table of TCP control information per site."""
    rows = sorted(source.rows("tcp_control"), key=lambda row: (row["site"] != ALL, natural(row["site"])))
    flags = ("syn", "fin", "rst", "ece", "cwr")
    columns = [("Site", False), ("Flows", True), ("Frames", True), ("Retransmitted", True), ("Duplicate ACKs", True)]
    columns += [("Handshakes", True), ("RTT median", True), ("RTT 99 %", True)]
    columns += [(flag.upper(), True) for flag in flags]
    cells = [
        [
            *(site(row), number(row["flows"]), number(row["frames"]), scaled(row["retransmitted_bytes"], "B")),
            *(number(row["duplicate_acks"]), number(row["handshakes"])),
            *(duration(row["handshake_rtt_p50_ns"]), duration(row["handshake_rtt_p99_ns"])),
            *(number(row[flag]) for flag in flags),
        ]
        for row in rows
    ]
    note = (
        "Frames with each flag; SYN counts SYN/ACK too. Retransmitted: payload seen before in its flow and sample. "
        "Duplicate ACKs: frames without data, SYN and FIN that repeat the highest acknowledgment so far with an "
        "unchanged window while the peer's data is not acknowledged (RFC 5681, section 2); tshark's "
        "tcp.analysis.duplicate_ack does not require such data and often counts more."
    )
    return table("tcp_control", "TCP control", note, columns, cells)


def restrictions_table(source: Source) -> list[dict]:
    """Return the table of samples by restriction, and whether they count in traffic statistics.

    Returns [] if no sample has a restriction.
    """
    if not any(row["restriction"] for row in source.quality):
        return []
    rows = sorted(source.rows("restrictions"), key=lambda row: (row["excluded"], -row["frames"], row["detail"] or ""))
    columns = [("Restriction", False), ("In traffic statistics", False), ("Samples", True), ("Frames", True)]
    columns += [("Bytes", True)]
    cells = [
        [
            row["detail"] or (restrictions.describe(row["restriction"]) if row["restriction"] else "none"),
            *("excluded" if row["excluded"] else "counted", number(row["samples"]), number(row["frames"])),
            scaled(row["wire_bytes"], "B"),
        ]
        for row in rows
    ]
    note = "Reasons why samples do not contain all traffic of their port, and whether statistics include them."
    return [table("restrictions", "Samples by restriction", note, columns, cells)]


def quality(source: Source) -> dict:
    """Return the table of capture quality per sample."""
    rows = sorted(source.quality, key=lambda r: (natural(r["site"]), natural(r["port"]), natural(r["sample"])))
    note = (
        "Loss share: lost frames as a share of the offered frames, at all stages with counters (mirror, interface, "
        "kernel, file); ? means unknown."
    )
    note += (
        " Mirror: whether it lost frames, from counters of the switch and captured frames. Mirror loss: from the lower"
    )
    note += " bound of the bytes lost in the mirror or in the switch before it, to the upper bound of those lost in the"
    note += " mirror, as shares. Malformed: truncated, or with an error in a header of layers 2 to 4 or of a tunnel;"
    note += " protocols above layer 4 are not checked. Clock: coarsest of 1 s, 100 ms, ..., 1 ns of which every"
    note += f" timestamp is a multiple; with fewer than {MIN_TIMESTAMPS} distinct timestamps, the clock may be finer."
    if len(rows) > MAX_SAMPLES:
        rows = sorted(rows, key=lambda row: -(row["loss_share"] or 0))[:MAX_SAMPLES]
        note += (
            f" The {MAX_SAMPLES} samples with the largest loss, of {len(source.quality):,}; the CSV file contains all."
        )
    columns = [("Sample", False), ("Site", False), ("Port", False), ("Frames", True), ("Lost frames", True)]
    columns += [("Loss share", True), ("Mirror", False), ("Mirror loss", True), ("Excluded from statistics", False)]
    columns += [("Duration", True), ("Clock", True), ("Malformed", True), ("File", False), ("Stages known", True)]
    columns += [("Method", False), EXTRACT]
    note += extract_note(source)
    cells = [
        [
            *(row["sample"], row["site"], row["port"], number(row["frames"]), number(row["lost_frames"])),
            UNKNOWN if row["loss_share"] is None else percent(row["loss_share"]),
            *(row["mirror_verdict"], interval(row["mirror_loss_low"], row["mirror_loss_high"]) or UNKNOWN),
            restrictions.describe(row["excluded"]) if row["excluded"] else "",
            *(duration(row["duration_ns"], UNKNOWN), duration(row["clock_resolution_ns"], UNKNOWN)),
            *(
                number(row["issue_frames"]),
                file_state(row),
                f"{row['loss_stages_known']} of 4",
                row["method"] or UNKNOWN,
            ),
            extract("--sample", row["sample"], f"{row['sample']}.pcapng"),
        ]
        for row in rows
    ]
    title = f"Quality of each sample{restrictions.title_suffix(source, every=True)}"
    return table("capture_quality", title, note, columns, cells)


def file_state(row: dict) -> str:
    """Return ``whole`` or the fault of the file, and the number of bytes not read."""
    state = row["file_issue"] or "whole"
    return f"{state}, {scaled(row['file_unread_bytes'], 'B')} not read" if row["file_unread_bytes"] else state


def site(row: dict) -> str:
    """Return the name of the site, or `all sites`."""
    return "all sites" if row["site"] == ALL else row["site"]


def interval(low: float | None, high: float | None) -> str:
    """Return an interval as text: ``13.6 % to 49.5 %``; empty if there is none."""
    return "" if low is None else f"{percent(low)} to {percent(high)}"


def duration(value_ns: int | None, null_text: str = "") -> str:
    """Return a duration as text; ``null_text`` if it is null."""
    return null_text if value_ns is None else nanoseconds(value_ns)
