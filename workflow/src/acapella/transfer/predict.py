"""Predict rates and completion times of flows in a topology; find link rates in proportion to the bytes on each link.

    acapella campaign predict multipath.yaml --rate 50 --adjust l1 l2
    acapella campaign predict multipath.yaml --rate 50 --ratio 0.5 --flows 6 --size 1G

Reads a topology file (docs/transfer.md) and prints for each flow its path, its max-min fair rate while all flows are
active, its bottleneck link, and its completion time. With --adjust, the named links share the sum of their rates in
proportion to the bytes that cross them (proportional design), and the ratio of the first two is printed.

Rates of links include headers, rates of flows do not: a 40 Mbit/s link carries 38.3 Mbit/s of payload in frames of
1,514 bytes.
"""

import argparse
from fractions import Fraction
from pathlib import Path

from acapella_core import topology
from acapella_core.errors import UserError

from . import maxmin, settings
from .network import MAX_FLOWS, Network, of_topology

PAYLOAD, FRAME = 1448, 1514  # bytes of a full TCP segment with timestamps, and of its Ethernet frame without FCS


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign predict`."""
    parser = subparsers.add_parser(
        "predict",
        help="predict completion times of flows; find proportional link rates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("topology", type=Path, metavar="YAML", help="topology file: nodes, links, paths")
    parser.add_argument("--size", default="1G", metavar="BYTES", help="bytes of each flow, K is 1024 (default: 1G)")
    parser.add_argument("--flows", type=int, metavar="N", help="number of flows (default: one per path)")
    parser.add_argument(
        "--rate",
        metavar="MBPS",
        help="rate of emulated links whose rate is not in the file, in Mbit/s (default: unlimited)",
    )
    parser.add_argument("--ratio", default="1", help="factor of this rate for links with times_ratio (default: 1)")
    parser.add_argument("--adjust", nargs="+", default=[], metavar="LINK", help="links whose rates are adjusted")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the prediction. Raises UserError."""
    rate = None if args.rate is None else positive("--rate", args.rate) * 10**6
    network = of_topology(topology.read(args.topology), rate, positive("--ratio", args.ratio))
    try:
        size = settings.size(args.size)
    except ValueError as error:
        raise UserError(f"--size: {args.size!r}: {error}") from error
    number = len(network.paths) if args.flows is None else args.flows
    if not 1 <= number <= MAX_FLOWS or not size:
        raise UserError(f"expected 1 to {MAX_FLOWS} flows of at least one byte")
    if unknown := [link for link in args.adjust if link not in network.rates_bps]:
        raise UserError(
            f"--adjust: {unknown[0]}: no link of this name with a rate", where=args.topology, fix="set --rate"
        )
    flows = [maxmin.Flow(network.paths[network.path_of(n)], size) for n in range(number)]
    capacity = payload_capacity(network.capacity(), Fraction(PAYLOAD, FRAME))
    print_flows(network, flows, capacity)
    if args.adjust:
        print_proportional(args.adjust, flows, capacity)


def positive(option: str, text: str) -> Fraction:
    """Return the value of an option that is a positive number. Raises UserError."""
    if not settings.NUMBER.fullmatch(text) or not Fraction(text):
        raise UserError(f"{option}: {text!r}: expected a positive number")
    return Fraction(text)


def payload_capacity(capacity: dict, share: Fraction) -> dict:
    """Return the payload rates of links; ``share``: payload, as a share of the bytes of a frame."""
    return {hop: rate * share for hop, rate in capacity.items()}


def print_flows(network: Network, flows: list[maxmin.Flow], capacity: dict) -> None:
    """Print a line per flow."""
    print(f"{'flow':>5} {'path':12} {'rate (Mbit/s)':>13} {'bottleneck':12} {'completion (s)':>14}")
    shares, ends = maxmin.fair_shares(flows, capacity), maxmin.completions(flows, capacity)
    for number, (share, end) in enumerate(zip(shares, ends, strict=True)):
        rate = "unlimited" if share.rate_bps is None else f"{float(share.rate_bps) / 1e6:.3f}"
        link = share.bottleneck[0] if share.bottleneck else "-"
        time = "0" if end is None else f"{float(end.time_s):.3f}"
        print(f"{number:>5} {network.path_of(number):12} {rate:>13} {link:12} {time:>14}")


def print_proportional(links: list[str], flows: list[maxmin.Flow], capacity: dict) -> None:
    """Print the proportional design. Raises UserError unless flows cross each link, in one direction."""
    hops = [[hop for hop in capacity if hop[0] == link] for link in links]
    for link, found in zip(links, hops, strict=True):
        if len(found) != 1:
            raise UserError(f"--adjust: {link}: paths cross it in {len(found)} directions: expected one")
    chosen = [found[0] for found in hops]
    try:
        design = maxmin.proportional(flows, capacity, chosen)
    except ValueError as error:
        raise UserError(f"--adjust: {error}") from error
    rates = ", ".join(
        f"{hop[0]} {float(design.capacity_bps[hop] * FRAME / PAYLOAD) / 1e6:.3f} Mbit/s" for hop in chosen
    )
    print(f"proportional: {rates}")
    if len(chosen) > 1:
        print(f"ratio {chosen[0][0]}/{chosen[1][0]}: {ratio_text(design.ratio(chosen[0], chosen[1]))}")
    times = [end.time_s for end in design.completions]
    text = (
        f"{float(min(times)):.3f} s"
        if min(times) == max(times)
        else f"{float(min(times)):.3f} to {float(max(times)):.3f} s"
    )
    print(f"completion: {text}; {'all flows end together' if design.together else 'flows do not end together'}")


def ratio_text(ratio: Fraction) -> str:
    """Return a ratio as a decimal number, with the fraction if it is not a whole number."""
    return f"{ratio}" if ratio.denominator == 1 else f"{float(ratio):.6g} ({ratio})"
