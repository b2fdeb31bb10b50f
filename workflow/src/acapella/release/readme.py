"""README.md of a release: what was done, and what a reader can and cannot do with it."""

from string import Template

from acapella import __version__

from .flows import FLOWS

TEXT = Template("""\
# Headers of network traffic, anonymized

$samples samples, $frames frames, made by Acapella $version. Check the files with `sha256sum -c SHA256SUMS`.

| Directory | What it holds |
|---|---|
| captures/ | a pcap a sample: headers of every frame, time stamps in ns, true lengths |
| acap/ | a row a frame (Parquet), made from these captures by engine $engine |
| flows/ | a row a directed flow (Parquet), made from these captures |
$table_line| catalog.duckdb | samples, flows, stacks and the tables for DuckDB 1.0.0 and later, and the view `frames` |
| samples.tsv | $sheet |

## The catalog
    duckdb -readonly catalog.duckdb "select site, sum(frames) from samples group by site"

The view `frames` (a row a frame, with the addresses of its flow) reads `acap/` beside the catalog. Run DuckDB in this
directory, or set its search path first: `set file_search_path = '/path/to/this/directory'`. The command `acapella sql
DIRECTORY QUERY` works from anywhere. DuckDB 1.0 cannot read a list column of the catalog, as
vlan, if a row group (122,880 rows) has only empty lists; 1.1 can. DuckDB 1.0 reads all columns of the Parquet files.

$left_out## What was done
- Every frame ends behind its last known header. No payload is here; $cut of $frames frames were cut, and of $empty
  nothing was kept but time and length.
- IPv4 and IPv6 addresses, wherever they stand in headers, were replaced by Crypto-PAn with AES and a secret key: two
  addresses that shared their first n bits share exactly n bits here. Nothing is left out of this: private, multicast
  and broadcast addresses have pseudonyms, too. The key is the same for all samples, and is not here.
- MAC addresses: $macs
- Tunnel identifiers (VNI, GRE key, NVGRE VSID and FlowID, TEID, PPTP call, sessions and tunnels of L2TP, PPPoE and
  ERSPAN, PBB I-SID) were replaced by pseudonyms with the same key: equal identifiers of a type stay equal, different
  ones stay different. flow_id, peer_flow_id and community_id are computed from the pseudonyms.
- Checksums of IPv4 headers are right. Those of TCP, UDP, ICMP, SCTP and the like are right where all that they cover
  is here, and zero where it is not.
- Identifiers in LLDP, CDP, spanning tree, LACP, DHCP, DNS and everything else that is not an address in a known header
  are gone with the payload. Options that are not known are zeros of the same length.
- Comments, names of interfaces and machines, and everything else that the capture files told were dropped.
- $names

## What can be done with it
Header stacks, frame sizes, times, flows and their sizes, TCP's behavior, who shares a network with whom, which flows
belong to the same pseudonymous host.

## What cannot, and must not
- No applications by payload, no names, no content. Payload checksums cannot be verified.
- VLAN ids, MPLS labels, ports, sequence numbers, TCP time stamps, IP identification, and all times
  are the true ones. Whoever saw some of this traffic elsewhere can find it here again, and with it some true prefixes.
  Do not try to find out who is behind an address.
""")
MACS = {
    "replace": "each has a pseudonym, the same in all samples, by the same key. Broadcast, zero, and addresses of "
    "protocols (01:80:c2:00:00:00 to 2f, Cisco's) stay; IP multicast keeps its prefix; of others the first four bits, "
    "the group and the local bit stay, and whether tshark knows a vendor by its address, though not which.",
    "blank": "zeros, but for the first four bits, the group and the local bit. Broadcast and addresses of protocols "
    "stay, IP multicast keeps its prefix.",
}
SHEET = (
    "site, port, direction and counts of each sample; an empty field is not known; where `filtered` is true or "
    "`one_in` above 1, frames that came were left out on purpose; `restriction` gives what keeps a sample from holding "
    "all traffic of its port, and `excluded` is not empty if the sample is therefore excluded from the traffic "
    "statistics in tables/"
)
NAMES = {
    True: "Names of sites, ports and samples are pseudonyms.",
    False: "Names of sites, ports and samples are the true ones.",
}


def text(done: list[dict], tables: list[str], left_out: dict[str, list[str]], *, hidden: bool, macs: str) -> str:
    """Return the text, of what was done with each capture, the tables released, and those ``left_out`` by reason."""
    listed = ", ".join(tables)
    about = f"results of the true captures, as counts and shares ({listed}); those with addresses are left out"
    if FLOWS in tables:
        about += f", but for {FLOWS}, which has their pseudonyms"
    return TEXT.substitute(
        samples=len(done),
        frames=sum(one["frames"] for one in done),
        version=__version__,
        engine=" or ".join(sorted({one["engine"] for one in done})),
        cut=sum(one["cut_frames"] for one in done),
        empty=sum(one["empty_frames"] for one in done),
        macs=MACS[macs],
        names=NAMES[hidden],
        sheet=SHEET,
        left_out=missing_tables_text(left_out),
        table_line=f"| tables/ | {about} |\n" if tables else "",
    )


def missing_tables_text(left_out: dict[str, list[str]]) -> str:
    """Return the section on tables that are not released; empty if there are none."""
    if not left_out:
        return ""
    lines = [f"- {', '.join(names)}: {reason}" for reason, names in left_out.items()]
    return "\n".join(["## Tables that are not here", *lines, "", ""])
