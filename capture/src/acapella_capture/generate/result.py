"""The list of generated flows (schemas/generated.json), which `acapella monitor --expected` reads."""

import ipaddress
from typing import Any

from acapella_core import names

from .compiled import CompiledModel, Field, Flow
from .protocols import NETWORK

FORMAT = "acapella-generated"
VERSION = 1


def document(model: CompiledModel, report: dict[str, Any], output: str) -> dict[str, Any]:
    """Return the document for a report of acapella-dpdk-generate. ``output``: file or interface."""
    pairs = zip(model.flows, report["flows"], strict=True)
    return {
        "format": FORMAT,
        "version": VERSION,
        "model_sha256": model.sha256,
        "seed": model.seed,
        "output": output,
        **{key: report[key] for key in ("start_ns", "packets", "bytes", "dropped", "timing")},
        "flows": [{"flow": number} | describe(flow) | counts for number, (flow, counts) in enumerate(pairs)],
    }


def unsent_reasons(document: dict[str, Any]) -> list[str]:
    """Return all reasons why packets of the model were not sent; an empty list if all packets were sent."""
    timing = document["timing"] or {"ended": "complete", "drained": True}
    reasons = {
        f"the driver did not accept {names.pluralize(document['dropped'], 'packet')}": document["dropped"] > 0,
        f"the run ended early: {timing['ended']}": timing["ended"] != "complete",
        "packets are still in the queue of the device": not timing["drained"],
    }
    return [reason for reason, applies in reasons.items() if applies]


def describe(flow: Flow) -> dict[str, Any]:
    """Return the description of a flow, without counts."""
    fields = {(field.header, field.name): field for field in flow.fields}
    networks = [number for number, name in enumerate(flow.protocols) if name in NETWORK]
    inner = networks[-1] if networks else None
    ports: dict[str, int | None] = {"src": None, "dst": None}
    if inner is not None and flow.protocols[inner + 1 : inner + 2] in (("tcp",), ("udp",)):
        ports = {name: value_of(fields[inner + 1, name]) for name in ports}
    return {
        "name": flow.name,
        "protocols": list(flow.protocols),
        "vlan": [value_of(fields[at, "id"]) for at, name in enumerate(flow.protocols) if name in ("vlan", "svlan")],
        "mpls": [value_of(fields[at, "label"]) for at, name in enumerate(flow.protocols) if name == "mpls"],
        "ip_version": None if inner is None else int(flow.protocols[inner][-1]),
        "src": None if inner is None else address_of(fields[inner, "src"], flow.protocols[inner]),
        "dst": None if inner is None else address_of(fields[inner, "dst"], flow.protocols[inner]),
        "ip_proto": None if inner is None else value_of(fields[inner, "protocol"]),
        "src_port": ports["src"],
        "dst_port": ports["dst"],
        "varying": [f"{field.header}.{field.name}" for field in flow.varying],
        "stamp_offset": flow.stamp,
        "pattern": flow.pattern,
        "pattern_offset": flow.pattern_offset,
    }


def value_of(field: Field) -> int | None:
    """Return a constant value; None if the field varies."""
    return None if field.varying else field.value


def address_of(field: Field, protocol: str) -> str | None:
    """Return a constant address as text; None if it varies."""
    if field.varying:
        return None
    return str({"ipv4": ipaddress.IPv4Address, "ipv6": ipaddress.IPv6Address}[protocol](field.value))
