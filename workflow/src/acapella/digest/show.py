"""Print the frames of an acap, one line per frame: a summary like that of tshark, or selected columns.

    acapella show trace.acap.parquet
    acapella show trace.acap.parquet --columns frame,protocols,src,dst,vlan,mpls

By default, a line contains the number of the frame, seconds since the first frame, source, destination, protocol, and
wire length. Ports, TCP flags and TCP numbers follow, or the headers and the payload length of other protocols. An acap
contains no MAC addresses and no fields of ICMP or ARP, so only the names of these protocols are printed; for an ICMP
error, the quoted headers are also printed.

With --columns, prints the given columns, tab-separated, in file order, without a header line. Columns of the frame
table and of the flow table can be selected; a column that is in both is taken from the frame table. Nulls are empty,
list elements are separated by commas, and fields of an element by asterisks: stacks (Ethernet/IPv4/TCP*12), tunnels
(vxlan_vni*5*4: type, id, position).
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

ARROW = "\N{RIGHTWARDS ARROW}"
FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")  # from bit 0, RFC 9293 section 3.1 and RFC 9768
SUMMARY_FRAMES = ["frame", "ts_ns", "wire_len", "stack", "tcp_flags", "tcp_seq", "tcp_ack", "payload_len", "issue"]
SUMMARY_FLOWS = ["src", "dst", "ip_proto", "src_port", "dst_port"]
# The first ICMP header of a stack is the frame's; the headers after it are quoted (RFC 792, RFC 4443 section 2.4).
ICMP_HEADER = r"^(?:.*?/)?(ICMP(?:v6)?)(?:/.*)?$"
QUOTED_PACKET = r"^(.*?ICMP(?:v6)?)/(IP.*)$"


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella show`."""
    parser = subparsers.add_parser(
        "show",
        help="print the frames of an acap",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("acap", metavar="ACAP", help="frame table written by acapella digest")
    parser.add_argument(
        "--columns", metavar="A,B,...", help="print these columns, tab-separated (default: a summary of each frame)"
    )
    parser.add_argument(
        "--flows",
        metavar="FLOWS",
        help="flow table (default: ../flows/X.parquet, or X.flows.parquet for an ACAP X.parquet or X.acap.parquet)",
    )
    return parser


def confine(_args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self()


def run(args: argparse.Namespace) -> None:
    """Print the frames of an acap."""
    if args.columns is not None:
        print_columns(Path(args.acap), args.flows, [name.strip() for name in args.columns.split(",")])
    else:
        print_summary(Path(args.acap), args.flows)


def find_flows(acap: Path, flows: str | None) -> Path:
    """Return the path of an acap's flow table: ``flows``, or else the default paths of digest.

    Raises UserError if there is no such file.
    """
    in_shard = acap.parent.parent.parent / "flows" / acap.parent.name / acap.name  # of acap/SHARD/
    beside = [acap.with_name(f"{stem}.flows{acap.suffix}") for stem in (acap.stem, acap.stem.removesuffix(".acap"))]
    candidates = [acap.parent.parent / "flows" / acap.name, in_shard, *beside]
    for candidate in [Path(flows)] if flows else candidates:
        if candidate.is_file() and candidate.resolve() != acap.resolve():
            return candidate
    if flows:
        raise UserError("no such flow table", where=flows)
    raise UserError("its flow table was not found", where=acap, fix="specify it with --flows")


def open_table(path: Path, *, flows: bool = False):
    """Open a frame table, or a flow table if ``flows``; return the Parquet file and its metadata.

    Raises UserError if the file cannot be read, is not such a table, or has a different format version.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    from .acap_files import KEY, check_format  # noqa: PLC0415

    if not path.exists():
        raise UserError("no such file", where=path)
    if path.is_dir():
        raise UserError("is a directory", where=path, fix="specify an acap in it, such as CAMPAIGN/acap/SAMPLE.parquet")
    try:
        file = pq.ParquetFile(path, read_dictionary=[])
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or error}", where=path) from error
    except pa.ArrowInvalid as error:
        raise UserError("not an acap", where=path, fix="specify a file that `acapella digest` wrote") from error
    metadata = (file.metadata.metadata or {}).get(KEY.encode())
    if metadata is None:
        raise UserError("not an acap", where=path, fix="specify a file that `acapella digest` wrote")
    is_acap = "frame" in file.schema_arrow.names
    if is_acap and flows:
        raise UserError("is an acap, not a flow table", where=path, fix="specify the file written by digest --flows")
    if not is_acap and not flows:
        fix = f"to print flows: acapella sql CAMPAIGN \"from flows\", or in a DuckDB client: from '{path}'"
        raise UserError("is a flow table, but show prints the frames of an acap", where=path, fix=fix)
    try:
        check_format(path, json.loads(metadata))
    except (ValueError, AttributeError, RecursionError) as error:
        fix = "digest the capture again"
        raise UserError("not an acap: its metadata is damaged", where=path, fix=fix) from error
    return file, metadata


def join_flows(acap: Path, flows: str | None, frame_columns: list[str], flow_columns: list[str]) -> Iterator:
    """Yield tables of frames in file order, joined with columns of their flows.

    Raises UserError if the flow table belongs to a different acap.
    """
    import pyarrow as pa  # noqa: PLC0415

    file, metadata = open_table(acap)
    by_flow = None
    if flow_columns:
        flow_file, flow_metadata = open_table(find_flows(acap, flows), flows=True)
        if flow_metadata != metadata:
            raise UserError("this flow table belongs to a different acap", where=find_flows(acap, flows))
        by_flow = flow_file.read(columns=flow_columns)
    for batch in file.iter_batches(columns=[*frame_columns, "flow"], use_threads=False):
        table = pa.Table.from_batches([batch])
        if by_flow is not None:
            rows = by_flow.take(table["flow"].combine_chunks())
            for name in flow_columns:
                table = table.append_column(f"flow.{name}", rows[name])
        yield table


def print_columns(acap: Path, flows: str | None, names: list[str]) -> None:
    """Print columns of the joined view, tab-separated. Raises UserError for an unknown column."""
    from acapella.common.tables import arrow_schema  # noqa: PLC0415

    frame_columns, flow_columns = arrow_schema("frames").names, arrow_schema("flows").names
    known = dict.fromkeys([*frame_columns, *flow_columns])
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or ";"
            listed = "docs/tables.md lists the columns of frames and flows"
            raise UserError(f"there is no column {name!r}{hint} {listed}", where="--columns")
    from_flows = [name for name in dict.fromkeys(names) if name not in frame_columns]
    from_frames = [name for name in dict.fromkeys(names) if name in frame_columns and name != "flow"]
    for table in join_flows(acap, flows, from_frames, from_flows):
        write_lines([as_text(table[name if name in frame_columns else f"flow.{name}"]) for name in names], "\t")


def print_summary(acap: Path, flows: str | None) -> None:
    """Print one line per frame, like the summary of tshark."""
    start = None
    for table in join_flows(acap, flows, SUMMARY_FRAMES, SUMMARY_FLOWS):
        stamps = table["ts_ns"].drop_null()
        start = stamps[0].as_py() if start is None and len(stamps) else start
        write_lines(summary_columns(table, start or 0), " ")


def as_text(column):
    """Return a column as text. Nulls are empty, list elements are joined by commas, fields of structs by asterisks."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        lists = column.combine_chunks()
        elements = pc.list_flatten(lists)
        parts = [as_text(elements.field(part.name)) for part in kind.value_type]
        column = pa.ListArray.from_arrays(lists.offsets, pc.binary_join_element_wise(*parts, "*"), mask=lists.is_null())
        return pc.fill_null(pc.binary_join(column, ","), "")
    if pa.types.is_list(kind):
        return pc.fill_null(pc.binary_join(column.cast(pa.list_(pa.utf8())), ","), "")
    return pc.fill_null(column.cast(pa.utf8()), "")


def write_lines(columns: list, separator: str) -> None:
    """Write text columns of equal length to standard output, one line per row."""
    import pyarrow.compute as pc  # noqa: PLC0415

    lines = pc.binary_join_element_wise(*columns, separator) if len(columns) > 1 else columns[0]
    if len(lines):
        text = pc.binary_join(single_list(pc.binary_join_element_wise(lines, "", "\n")), "")
        sys.stdout.write(text[0].as_py())


def single_list(column):
    """Return a list column with one list, which contains all values of a text column."""
    import pyarrow as pa  # noqa: PLC0415

    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.LargeListArray.from_arrays([0, len(values)], values)


def seconds(ns):
    """Return nanoseconds as text: seconds with nine decimals."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    absolute = pc.abs(ns)
    whole_seconds = pc.divide(absolute, 10**9)
    fraction = pc.utf8_lpad(pc.subtract(absolute, pc.multiply(whole_seconds, 10**9)).cast(pa.utf8()), 9, "0")
    sign = pc.if_else(pc.less(ns, 0), "-", "")
    return pc.binary_join_element_wise(
        pc.binary_join_element_wise(sign, whole_seconds.cast(pa.utf8()), ""), fraction, "."
    )


def summary_columns(table, start: int) -> list:
    """Return the text columns number, time, source, arrow, destination, protocol, length and information."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    text = {name: as_text(table[name]) for name in table.column_names}
    dash = {name: pc.if_else(pc.equal(text[name], ""), "-", text[name]) for name in ("flow.src", "flow.dst")}
    return [
        pc.utf8_lpad(text["frame"], 5),
        pc.utf8_lpad(pc.fill_null(seconds(pc.subtract(table["ts_ns"], start)), "-"), 13),
        dash["flow.src"],
        pa.repeat(ARROW, table.num_rows),
        dash["flow.dst"],
        protocol(text["stack"]),
        text["wire_len"],
        information(table, text),
    ]


def without_data(stack):
    """Return header stacks without trailing `Data`, which is not a protocol."""
    import pyarrow.compute as pc  # noqa: PLC0415

    return pc.replace_substring_regex(stack, "(/Data)+$", "")


def protocol(stack):
    """Return the last header of each stack, like tshark's column Protocol, without headers that ICMP errors quote."""
    import pyarrow.compute as pc  # noqa: PLC0415

    frame_stack = pc.replace_substring_regex(without_data(stack), ICMP_HEADER, r"\1")
    return pc.replace_substring_regex(frame_stack, "^.*/", "")


def information(table, text: dict):
    """Return ports, TCP flags, sequence numbers and payload length, or headers without ports; then any issue."""
    import pyarrow.compute as pc  # noqa: PLC0415

    ports = pc.binary_join_element_wise(text["flow.src_port"], text["flow.dst_port"], f" {ARROW} ")
    length = pc.binary_join_element_wise("Len", text["payload_len"], "=")
    tcp = pc.binary_join_element_wise(
        ports,
        flag_names(table["tcp_flags"]),
        pc.binary_join_element_wise("Seq", text["tcp_seq"], "="),
        pc.if_else(pc.equal(text["tcp_ack"], ""), "", pc.binary_join_element_wise("Ack", text["tcp_ack"], "=")),
        length,
        " ",
    )
    has_ports = pc.not_equal(text["flow.src_port"], "")
    other_text = pc.if_else(has_ports, pc.binary_join_element_wise(ports, length, " "), headers(text, length))
    info = pc.replace_substring(pc.if_else(pc.is_valid(table["tcp_flags"]), tcp, other_text), "  ", " ")
    issue = pc.if_else(pc.equal(text["issue"], ""), "", pc.binary_join_element_wise(" [", text["issue"], "]", ""))
    return pc.binary_join_element_wise(info, issue, "")


def headers(text: dict, length):
    """Return the text for frames without ports: the headers and the headers that an ICMP error quotes.

    Without quoted headers, the IP protocol number (if the stack ends in IP) and the payload length follow.
    """
    import pyarrow.compute as pc  # noqa: PLC0415

    stack = without_data(text["stack"])
    with_quotes = pc.replace_substring_regex(stack, QUOTED_PACKET, r"\1 quotes \2")
    length_text = pc.if_else(pc.equal(text["payload_len"], ""), "", pc.binary_join_element_wise(" ", length, ""))
    ends_in_ip = pc.match_substring_regex(stack, "(^|/)IPv[46][^/]*$")  # a later fragment, or an unknown protocol
    number = pc.if_else(
        pc.and_(ends_in_ip, pc.not_equal(text["flow.ip_proto"], "")),
        pc.binary_join_element_wise(" IP protocol", text["flow.ip_proto"], " "),
        "",
    )
    details = pc.if_else(pc.equal(with_quotes, stack), pc.binary_join_element_wise(number, length_text, ""), "")
    return pc.binary_join_element_wise(with_quotes, details, "")


def flag_names(flags):
    """Return TCP flag bits as text, such as "[SYN, ACK]". Each combination is converted only once."""
    import pyarrow as pa  # noqa: PLC0415

    coded = flags.combine_chunks().dictionary_encode()
    names = [
        f"[{', '.join(name for bit, name in enumerate(FLAGS) if value >> bit & 1)}]"
        for value in coded.dictionary.to_pylist()
    ]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(names, pa.utf8())).cast(pa.utf8()).fill_null("")
