"""Writes README.md of a release: its contents, creation, possible uses, and limitations."""

from collections.abc import Mapping, Sequence
from string import Template

from acapella import __version__

from .flows import FLOWS

TEXT = Template("""\
# Headers of network traffic, anonymized

$samples samples, $frames frames, created by Acapella $version. Check the files with `sha256sum -c SHA256SUMS`.

| File or directory | Content |
|---|---|
| captures/ | one pcap file per sample: headers of every frame, timestamps in ns, original lengths |
| acap/ | one row per frame (Parquet), created from these captures by engine $engine |
| flows/ | one row per directed flow (Parquet), created from these captures |
$table_line| catalog.duckdb | samples, flows, stacks and the tables for DuckDB 1.0.0 and later, and the view `frames` |
| samples.tsv | $sheet |
| config.yaml, captures.tsv | settings and sample sheet from which Acapella recreates tables and figures |
| results/ | tables and figures created from these captures, if they were added; SHA256SUMS contains their checksums |

## Reproduction
In a clone of Acapella, `make reproduce DATA=THIS-DIRECTORY` recreates results/ and lists what differs, down to the
column. The files in tables/ are results of the original captures. The same command lists which of their columns have
different values if they are computed from these captures, because payload was removed and addresses were replaced.

## The catalog
    duckdb -readonly catalog.duckdb "select site, sum(frames) from samples group by site"

The view `frames` (one row per frame, with the addresses of its flow) reads the directory `acap/` next to the catalog.
Run DuckDB in this directory, or set its search path first: `set file_search_path = '/path/to/this/directory'`. The
command `acapella sql DIRECTORY QUERY` works from anywhere. DuckDB 1.0 cannot read a list column of the catalog, such as
vlan, if a row group (122,880 rows) has only empty lists; 1.1 can. DuckDB 1.0 reads all columns of the Parquet files.

$omitted## Anonymization
- Every frame ends after its last known header. The files contain no payload; $cut of $frames frames were truncated,
  and for $empty only time and length were kept.
- All IPv4 and IPv6 addresses in headers were replaced by Crypto-PAn with AES and a secret key: two addresses with a
  common prefix of n bits have pseudonyms with a common prefix of n bits. This includes private, multicast and broadcast
  addresses. The key is the same for all samples and is not published.
- MAC addresses: $macs
- Tunnel identifiers (VNI, GRE key, NVGRE VSID and FlowID, TEID, PPTP call, sessions and tunnels of L2TP, PPPoE and
  ERSPAN, PBB I-SID) were replaced by pseudonyms with the same key: equal identifiers of a type stay equal, different
  ones stay different. flow_id, peer_flow_id and community_id are computed from the pseudonyms.
- Checksums of IPv4 headers are correct. Checksums of TCP, UDP, ICMP, SCTP and other protocols are correct if all
  bytes that they cover were kept; otherwise they are zero.
- Identifiers in LLDP, CDP, spanning tree, LACP, DHCP, DNS and everything else that is not an address in a known header
  were removed with the payload. Unknown options were replaced by padding or zeros of the same length.
- Comments, names of interfaces and machines, and all other metadata of the capture files were removed.
- $names

## Possible uses
The data can be used to study header stacks, frame sizes, times, flows and their sizes, and the behavior of TCP. It
shows which hosts share a network, and which flows belong to the same pseudonymous host.

## Limitations and obligations
- Applications cannot be recognized by payload, and names and content are missing. Payload checksums cannot be
  verified.
- VLAN ids, MPLS labels, ports, sequence numbers, TCP timestamps, IP identification, and all times
  are unchanged. Anyone who captured some of this traffic elsewhere can recognize it and thereby learn some
  original prefixes. Do not try to identify the owners of addresses.
""")
TRANSFERS_LINE = Template(
    "| transfers/ | $runs runs of transfers: settings, results of iperf3, and digests of the captures at the sender, "
    "without addresses and names of hosts |\n"
)
TRIALS_LINE = Template(
    "| generated/ | $trials trials of generated traffic: what a monitor counted, without addresses of flows |\n"
)
INPUTS_LINE = Template(
    "| infrastructure/ | $inputs inputs of the infrastructure study: switch ports and NICs of sites, leases and sites "
    "of slices, counters of switch ports |\n"
)
WITHOUT_SAMPLES = Template("""\
# Studies of a testbed, without captures

Created by Acapella $version. Check the files with `sha256sum -c SHA256SUMS`.

| File or directory | Content |
|---|---|
$lines| config.yaml | settings from which Acapella recreates tables and figures |
| results/ | tables and figures created from these files, if they were added; SHA256SUMS contains their checksums |

In a clone of Acapella, `make reproduce DATA=THIS-DIRECTORY` recreates results/ and lists what differs, down to the
column. Sites, ports of switches, links, paths and flows have their original names. Port numbers, sequence numbers and
times are unchanged.

$omitted""")
MACS = {
    "replace": "each has a pseudonym, the same in all samples. Broadcast, zero, and protocol addresses "
    "(01:80:c2:00:00:00 to 2f, Cisco's) are unchanged, and IP multicast keeps its prefix. Pseudonyms of others keep "
    "the first four bits, the group and the local bit, and whether tshark knows a vendor of the address, but not "
    "which one.",
    "blank": "zeros, except for the first four bits, the group and the local bit. Broadcast and protocol addresses are "
    "unchanged, and IP multicast keeps its prefix.",
}
SHEET = (
    "site, port, direction and counts of each sample; an empty field means unknown; if `filtered` is true or "
    "`one_in` above 1, the capture omits some frames on purpose; `restriction` is the reason why a sample does not "
    "contain all traffic of its port, and `excluded` is not empty if the sample is therefore excluded from the traffic "
    "statistics in tables/"
)
NAMES = {
    True: "Names of sites, ports and samples are pseudonyms.",
    False: "Sites, ports and samples have their original names.",
}


def text(  # noqa: PLR0913
    counts_of_samples: list[dict],
    tables: list[str],
    missing: list[str],
    studies: Mapping[str, int],
    *,
    hidden: bool,
    macs: str,
) -> str:
    """Return the text of README.md.

    ``counts_of_samples``: counts of each capture; ``tables``: released tables; ``missing``: lines of
    `lines_about_missing`; ``studies``: numbers of ``runs`` of transfers, ``trials`` of generated
    traffic and ``inputs`` of the infrastructure study; ``hidden``: whether names are pseudonyms;
    ``macs``: the value of --macs.
    """
    omitted = "\n".join(["## What is not included", *missing, "", ""]) if missing else ""
    lines = {"runs": TRANSFERS_LINE, "trials": TRIALS_LINE, "inputs": INPUTS_LINE}
    study_lines = "".join(line.substitute(studies) for kind, line in lines.items() if studies[kind])
    if not counts_of_samples:
        return WITHOUT_SAMPLES.substitute(version=__version__, lines=study_lines, omitted=omitted)
    table_names = ", ".join(tables)
    about = f"results of the original captures, as counts and shares ({table_names}); those with addresses are omitted"
    if FLOWS in tables:
        about += f", except {FLOWS}, which has pseudonyms"
    return TEXT.substitute(
        samples=len(counts_of_samples),
        frames=sum(counts["frames"] for counts in counts_of_samples),
        version=__version__,
        engine=" or ".join(sorted({counts["engine"] for counts in counts_of_samples})),
        cut=sum(counts["cut_frames"] for counts in counts_of_samples),
        empty=sum(counts["empty_frames"] for counts in counts_of_samples),
        macs=MACS[macs],
        names=NAMES[hidden],
        sheet=SHEET,
        omitted=omitted,
        table_line=(f"| tables/ | {about} |\n" if tables else "") + study_lines,
    )


def lines_about_missing(omitted: dict[str, list[str]], notes: Sequence[str]) -> list[str]:
    """Return lines about omitted tables, given by reason, and about results that cannot be reproduced."""
    lines = [f"- {', '.join(names)}: {reason}" for reason, names in omitted.items()]
    return [*lines, *(f"- in results/, {note}" for note in notes)]
