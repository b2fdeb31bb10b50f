"""Computes the campaign's counterparts of numbers printed in the CHOIR, OSNT and sliced-WAN papers."""

from acapella.campaign.clocks import clock_resolution
from acapella.common.wording import count, digits, percent, scaled

from . import printed
from .campaign_tables import CampaignTables, Value, median, plain, text

DUAL = "local-dual"  # environment of config/paper/choir.yaml with two replayers
KAPPA = "kappa_"  # prefix of the names of Table 2: kappa_ENVIRONMENT
WITHIN, WITHIN_NS = "within_", 10  # prefix of the names of shares of inter-arrival deltas, and their threshold
RUNS = {run: position for position, run in enumerate("BCDE", 2)}  # position of the trial; run A is the first
MOVES = ("mean", "sigma", "abs_mean", "abs_sigma", "min", "max")
SHALLOW_BDP, DEEP_BDP = 0.1, 1.0  # bandwidth-delay products
STREAMS = (5, 20)  # numbers of streams between which the paper reads the gain per stream
WRITTEN = {"whole": "whole", "truncated": "truncated with a hash"}  # part of each frame that a search writes: text
RETRANSMITS_RANGE = (2, 6)  # range of the ratio of retransmissions in the paper


def choir(tables: CampaignTables) -> dict[str, Value]:
    """Return the values by the names in workflow/conformance/choir_printed.csv."""

    def dual(rows, position=None):
        dual_rows = [row for row in rows if (row["environment"], row["a"], row["scope"]) == (DUAL, 1, "packet")]
        return [row for row in dual_rows if position in (None, row["b"])]

    def move(position, column):
        def compute(rows):
            found = dual(rows, position)
            if found and not found[0]["moved"]:
                return Value(0, "no packet moved")
            number = found[0][column] if found else None
            return None if number is None else Value(number, f"{number:,.2f}".removesuffix(".00"))

        return compute

    def kappa(environment):
        def compute(rows):
            found = [row["kappa"] for row in rows if row["environment"] == environment and row["kappa"] is not None]
            return Value(found[0], f"{found[0]:.4f}") if found else None

        return compute

    def within(environment):
        def compute(rows):
            found = [row["iat_within_share"] for row in rows if row["environment"] == environment]
            if any(row["within_ns"] != WITHIN_NS for row in rows):
                return Value(None, f"consistency.within_ns does not begin with {WITHIN_NS} ns")
            return text(found[0]) if found and found[0] is not None else None

        return compute

    def share(rows):
        shares = [row["moved"] / row["packets_common"] for row in dual(rows) if row["packets_common"]]
        return text(sum(shares) / len(shares)) if shares else None

    values = {
        f"moves_{run}_{column}": tables.value("consistency_moves", move(position, column))
        for run, position in RUNS.items()
        for column in MOVES
    }
    values["moved_share"] = tables.value("consistency_moves", share)
    for name in (row["name"] for row in printed.rows("choir") if row["name"].startswith(KAPPA)):
        values[name] = tables.value("consistency_environments", kappa(name.removeprefix(KAPPA)))
    for name in (row["name"] for row in printed.rows("choir") if row["name"].startswith(WITHIN)):
        values[name] = tables.value("consistency_environments", within(name.removeprefix(WITHIN)))
    return values


def osnt(tables: CampaignTables) -> dict[str, Value]:
    """Return the values by the names in workflow/conformance/osnt_printed.csv."""

    def resolution(rows):
        known = [resolution for resolution in map(clock_resolution, rows) if resolution is not None]
        return Value(max(known), f"{max(known):,} ns ({plain(count(len(known), 'sample'))})") if known else None

    def lost(rows):
        known = [row for row in rows if row["loss_share"] is not None and row["duration_ns"]]
        if not known:
            return None
        frames = sum(row["lost_frames"] for row in known)
        rate = max(8e9 * row["wire_bytes"] / row["duration_ns"] for row in known)
        share = frames / (frames + sum(row["frames"] for row in known) or 1)
        sample_count = f"{plain(count(len(known), 'sample'))}, at most {plain(scaled(rate, 'bit/s'))}"
        return Value(share, f"{plain(percent(share))} ({sample_count})")

    def two_ports(rows):
        found = [row for row in rows if row["ports"] == 2 and row["measure"] == "throughput" and row["result"]]
        rates = {capture: best_bps([row for row in found if row["capture"] == capture]) for capture in WRITTEN}
        known = {WRITTEN[capture]: rate for capture, rate in rates.items() if rate is not None}
        parts = [f"{plain(scaled(rate, 'bit/s'))} {written}" for written, rate in known.items()]
        return Value(max(known.values()), ", ".join(parts)) if known else None

    def truncated(rows):
        lossless = [
            row for row in rows if row["lost"] == 0 and 0 < row["snaplen"] < row["frame_bytes"] and row["rate_bps"]
        ]
        best = max((row["rate_bps"] / 8 / row["frame_bytes"] for row in lossless), default=None)
        return None if best is None else text(best, lambda value: scaled(value, "frames/s"))

    def late(rows):
        known = [row for row in rows if row["sent_late"] is not None]
        number = sum(row["sent_late"] for row in known)
        return Value(number, f"{number:,} late packets in {plain(count(len(known), 'trial'))}") if known else None

    def generated(rows):
        known = [row for row in rows if row["expected"] and row["lost"] is not None]
        if not known:
            return None
        sent, lost = (sum(row[name] for row in known) for name in ("expected", "lost"))
        times = [row[name] for row in known for name in ("first_ns", "last_ns") if row[name] is not None]
        time_ns = max(times, default=0) - min(times, default=0)
        rate = f", {plain(scaled(8e9 * sum(row['bytes'] for row in known) / time_ns, 'bit/s'))}" if time_ns else ""
        return Value(lost / sent, f"{plain(percent(lost / sent))} of {sent:,} packets{rate}")

    return {
        "timestamp_resolution": tables.value("capture_quality", resolution),
        "capture_one_port": tables.value("capture_quality", lost),
        "capture_two_ports": tables.value("monitor_searches", two_ports),
        "capture_rate": tables.value("storage_rates", truncated),
        "generated_loss": tables.value("monitor_flows", generated),
        "generator_rate": tables.value("consistency_replays", late),
    }


def best_bps(rows: list[dict]) -> float | None:
    """Return the highest rate among trials of a search, in bit/s; None without trials."""
    return max((8 * row["rate_pps"] * row["frame_bytes"] for row in rows), default=None)


def sliced_wan(tables: CampaignTables) -> dict[str, Value]:
    """Return the values by the names in workflow/conformance/sliced_wan_printed.csv."""

    def gain(select):
        def compute(rows):
            known = [row for row in rows if None not in (row["gain_percent"], row["buffer_bdp"], row["delay_ns"])]
            middle = median({row["delay_ns"] for row in known})
            gains = [row["gain_percent"] / 100 for row in known if select(row, middle)]
            found = median(gains)
            return None if found is None else Value(found, signed(found, f"median of {count(len(gains), 'setting')}"))

        return compute

    def retransmits(rows):
        ratios = [row["retransmits_ratio"] for row in rows if row["retransmits_ratio"] is not None]
        found = median(ratios)
        if found is None:
            return None
        between = sum(RETRANSMITS_RANGE[0] <= ratio <= RETRANSMITS_RANGE[1] for ratio in ratios)
        return Value(found, plain(f"median {digits(found)}; 2 to 6 in {between} of {count(len(ratios), 'setting')}"))

    def per_stream(rows):
        low, high = STREAMS
        gains = [
            1 - row["cubic_per_stream_bps"] / row["bbr_per_stream_bps"]
            for row in rows
            if low <= (row["streams"] or 0) <= high and row["bbr_per_stream_bps"] and row["cubic_per_stream_bps"]
        ]
        return Value(max(gains), signed(max(gains), f"largest of {count(len(gains), 'setting')}")) if gains else None

    def ends(rows):
        shares = [row["ends_apart_mean"] for row in rows if row["ratio"] == 2 and row["ends_apart_mean"] is not None]
        return text(sum(shares) / len(shares)) if shares else None

    return {
        "gain_shallow": tables.value("transfer_gain", gain(lambda row, _: row["buffer_bdp"] < SHALLOW_BDP)),
        "gain_deep": tables.value(
            "transfer_gain",
            gain(lambda row, middle: row["buffer_bdp"] >= DEEP_BDP and row["delay_ns"] >= middle),
        ),
        "retransmits": tables.value("transfer_gain", retransmits),
        "streams_completion": tables.value("transfer_settings", fastest_streams),
        "gain_per_stream": tables.value("transfer_gain", per_stream),
        "ratio_ends": tables.value("transfer_settings", ends),
    }


def fastest_streams(rows: list[dict]) -> Value | None:
    """Return the number of streams with which BBR completes first, if the campaign has several numbers of streams."""
    bbr_rows = [row for row in rows if row["algorithm"] == "bbr" and row["completion_ns_mean"] is not None]
    bbr_rows = [row for row in bbr_rows if row["ratio"] is None and row["streams"] is not None]
    if len({row["streams"] for row in bbr_rows}) < 2:
        return None
    best = min(bbr_rows, key=lambda row: row["completion_ns_mean"])
    return Value(best["streams"], plain(count(best["streams"], "stream")))


def signed(value: float, source: str) -> str:
    """Return a gain as ``+21.3 % (median of 8 settings)``."""
    return plain(f"{'-' if value < 0 else '+'}{percent(abs(value))} ({source})")
