"""Computes the campaign's counterparts of numbers printed in the Patchwork paper (IMC 2025)."""

from collections import Counter
from collections.abc import Container

from acapella.common.wording import count, digits, percent, scaled, span

from . import printed
from .campaign_tables import ALL, CampaignTables, Value, median, plain, text

MEMORY_PERCENT = 21  # share of memory at which appendix B compares the thresholds
THRESHOLDS = ((10, 20), (20, 50))
BINS = {"frames_65_127": 65, "frames_128_255": 128, "frames_1519_2047": 1519}  # smallest length
WRITER_THRESHOLDS = (60, 80)  # of Tables 1 and 2
DPDK_METHODS = ("dpdk", "fpga")
LOSSES = "loss_"  # prefix of the names of Tables 1 and 2: loss_SNAPLEN_BYTES
DEPTHS = (6, 12)  # range over sites, in the paper: headers in the deepest stack


def values(tables: CampaignTables) -> dict[str, Value]:
    """Return the values by the names in workflow/conformance/patchwork_printed.csv."""
    return {
        **infrastructure(tables),
        **collection(tables),
        **traffic(tables),
        **flows(tables),
        **measurements(tables),
        **writer(tables),
    }


def infrastructure(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for section 5."""

    def summary(compute):
        return tables.value("infrastructure_summary", lambda rows: compute(rows[0]))

    def optional(column, form=percent):
        return summary(lambda row: None if row[column] is None else text(row[column], form))

    def share(part, total):
        return summary(lambda row: share_of(row[part], row[total], total) if row[total] else None)

    return {
        "ports": share("sites_with_more_downlinks", "sites_with_downlinks"),
        "single_site": optional("single_site_share"),
        "several_sites": optional("several_sites_share"),
        "within_24_h": optional("within_24_h_share"),
        **{f"simultaneous_{kind}": optional(f"simultaneous_{kind}", digits) for kind in ("mean", "stddev", "max")},
        "peak_week": optional("peak_week_mean_bps", lambda value: scaled(value, "bit/s")),
        "utilization": share("low_ports", "ports"),
        "line_rate": share("line_rate_ports", "ports"),
    }


def collection(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for nodes and samples in sections 6.2 and 8."""

    def duration(rows):
        known = [row["duration_ns"] / 1e9 for row in rows if row["duration_ns"] is not None]
        found = median(known)
        return (
            None if found is None else Value(found, plain(f"{found:,.3g} s (median of {count(len(known), 'sample')})"))
        )

    def occasions(rows):
        number = len({(row["started"], row["campaign"]) for row in rows})
        return Value(number, plain(count(number, "collection")))

    return {
        "node_cores": tables.setting("collect", "cores", "cores"),
        "node_ram": tables.setting("collect", "ram_gb", "GB"),
        "node_disk": tables.setting("collect", "disk_gb", "GB"),
        "buffer": tables.setting("capture", "buffer_kib", "MiB", 1024),
        "sample_period": tables.setting("collect", "sample_period_s", "s"),
        "sample_duration": tables.value("capture_quality", duration),
        "snaplen": tables.value("capture_quality", most_frequent_snaplen),
        "snaplen_dpdk": tables.value("capture_quality", lambda rows: most_frequent_snaplen(rows, DPDK_METHODS)),
        "occasions": tables.value("outcomes", occasions),
    }


def most_frequent_snaplen(rows: list[dict], methods: Container[str] | None = None) -> Value | None:
    """Return the most frequent snap length of samples with these capture methods; of several, the smallest."""
    known = [row["snaplen"] for row in rows if row["snaplen"] and (methods is None or row["method"] in methods)]
    if not known:
        return None
    snaplen, samples = min(Counter(known).items(), key=lambda item: (-item[1], item[0]))
    return Value(snaplen, plain(f"{snaplen:,} B ({samples:,} of {count(len(known), 'sample')})"))


def share_of(part: int, total: int, what: str) -> Value:
    """Return a share as ``93.3 % (14 of 15 ports)``."""
    noun = "ports" if what == "ports" else "sites"
    return Value(part / total, plain(f"{percent(part / total)} ({part:,} of {total:,} {noun})"))


def traffic(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for headers and frame sizes in section 8.2."""

    def ipv6(rows):
        shares = [row["share"] for row in rows if row["site"] == ALL and row["ip_version"] == "6"]
        return text(shares[0]) if shares and shares[0] is not None else None

    def bin_share(low):
        def compute(rows):
            key = (ALL, "outer", low)
            shares = [row["share"] for row in rows if (row["site"], row["length"], row["bin_lo"]) == key]
            return text(shares[0]) if shares and shares[0] is not None else None

        return compute

    def deepest(rows):
        depths = [row["deepest_stack"] for row in rows if row["site"] != ALL and row["frames"]]
        if not depths:
            return None
        low, high = min(depths), max(depths)
        return Value(low if low < DEPTHS[0] else high, f"{span(low, high)} headers")

    def sites(rows):
        number = len({row["site"] for row in rows if row["site"] != ALL and row["frames"]})
        return Value(number, plain(count(number, "site"))) if number else None

    def ethernet(rows):
        shares = [row["occurrence_share"] for row in rows if (row["site"], row["header"]) == (ALL, "Ethernet")]
        return text(shares[0]) if shares else None

    return {
        "ipv6": tables.value("ip_versions", ipv6),
        "ethernet": tables.value("header_occurrence", ethernet),
        **{name: tables.value("frame_sizes", bin_share(low)) for name, low in BINS.items()},
        "sites": tables.value("header_depth", sites),
        "deepest_stack": tables.value("header_depth", deepest),
    }


def flows(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for flows in section 8.2."""

    def in_samples(choose):
        def compute(rows):
            number = choose([row["flows"] for row in rows])
            return None if number is None else Value(number, f"{number:,.0f} ({plain(count(len(rows), 'sample'))})")

        return compute

    def size(choose):
        def compute(rows):
            line = [row for row in rows if (row["scope"], row["site"], row["measure"]) == ("campaign", ALL, "wire")]
            found = choose(sorted(line, key=lambda row: row["bytes"]))
            return found and Value(found["bytes"], plain(f"at least {scaled(found['bytes'], 'B')}"))

        return compute

    def half(line):
        thresholds = [row for row in line if 2 * row["flows_ge"] > row["flows"]]
        return thresholds[-1] if thresholds else None

    def last(line):
        thresholds = [row for row in line if row["flows_ge"]]
        return thresholds[-1] if thresholds else None

    return {
        "flows_most": tables.value("flows_per_sample", in_samples(median)),
        "flows_handful": tables.value("flows_per_sample", in_samples(lambda found: max(found, default=None))),
        "flow_size_most": tables.value("flow_sizes", size(half)),
        "flow_size_some": tables.value("flow_sizes", size(last)),
    }


def measurements(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for collections and the storage study."""

    def success(rows):
        sites = sum(row["sites"] for row in rows)
        successful = sum(row["sites"] for row in rows if row["outcome"] == "success")
        return share_of(successful, sites, "sites") if sites else None

    def writer_rate(name):
        lengths = tuple(map(int, name.removeprefix(LOSSES).split("_")))

        def compute(rows):
            runs = [row for row in rows if (row["snaplen"], row["frame_bytes"]) == lengths]
            best = max((row["rate_bps"] for row in runs if row["lost"] == 0 and row["rate_bps"]), default=None)
            return None if best is None else Value(best, plain(f"no loss at {scaled(best, 'bit/s')}"))

        return compute

    return {
        "success": tables.value("outcomes", success),
        "latency_ratio": tables.value("storage_growth", lambda rows: latency_ratio(tables, rows)),
        **{
            row["name"]: tables.value("storage_rates", writer_rate(row["name"]))
            for row in printed.rows("patchwork")
            if row["name"].startswith(LOSSES)
        },
    }


def writer(tables: CampaignTables) -> dict[str, Value]:
    """Return the values for the DPDK program in section 8.1.4 and appendix B."""

    def batch(rows):
        known = [row for row in rows if row["writer"] == "buffered" and row["calls"]]
        if not known:
            return None
        frames = sum(row["written"] for row in known) / sum(row["calls"] for row in known)
        return Value(frames, plain(f"{frames:.3g} (mean of {count(len(known), 'run')})"))

    def thresholds(rows):
        pairs = sorted({(row["background_percent"], row["limit_percent"]) for row in rows})
        return (
            Value(pairs.count(WRITER_THRESHOLDS), ", ".join(f"{low}:{high}" for low, high in pairs)) if pairs else None
        )

    def memory(rows):
        sizes = sorted({row["memory_bytes"] for row in rows})
        return Value(sizes[-1], ", ".join(plain(scaled(size, "B")) for size in sizes)) if sizes else None

    return {
        "batch": tables.value("storage_runs", batch),
        "thresholds": tables.value("storage_runs", thresholds),
        "host_memory": tables.value("storage_runs", memory),
    }


def latency_ratio(tables: CampaignTables, rows: list[dict]) -> Value | None:
    """Return the ratio of the summed latencies of long calls for two pairs of thresholds, on the same disk.

    The sums are those when the written bytes reach MEMORY_PERCENT of the memory.
    """
    sums: dict[tuple, int] = {}
    for run in tables.rows("storage_runs") or []:
        reached = [row for row in rows if row["run"] == run["run"] and row["written_percent"] >= MEMORY_PERCENT]
        if run["writer"] == "buffered" and reached:
            first = min(reached, key=lambda row: row["place"])
            sums[run["disk_mbps"], (run["background_percent"], run["limit_percent"])] = first["long_upper_ns"]
    for disk in dict.fromkeys(disk for disk, _ in sums):
        low, high = (sums.get((disk, thresholds)) for thresholds in THRESHOLDS)
        if low is not None and high:
            disk_text = "the disk as it is" if disk is None else f"disk slowed to {disk} MB/s"
            return Value(low / high, f"{low / high:.3g} ({low / 1e6:,.3g} ms and {high / 1e6:,.3g} ms, {disk_text})")
    return None
