"""Requirements of testbed fabric, determined without FABRIC's client, a token or the network."""

import importlib.util
from collections.abc import Collection, Sequence
from dataclasses import replace

from acapella_core.errors import UserError

from ...settings import FabricSettings
from ..base import ResourceRequest
from . import credentials

# Dedicated NICs with two ports each, and the rate of a port (fabrictestbed-extensions 2.0.9, Node.add_component).
NICS = {
    "NIC_ConnectX_5": 25_000_000_000,
    "NIC_ConnectX_6": 100_000_000_000,
    "NIC_ConnectX_7_100": 100_000_000_000,
    "NIC_ConnectX_7_400": 400_000_000_000,
}
PORTS_PER_NIC = 2
CLIENT = "fabrictestbed_extensions"
MIRRORING = "Net.PortMirroring"  # Net.PortMirror, which some notebooks name, does not exist in FABRIC's policy
SMART_NIC = "Component.SmartNIC"  # permits all models; the table of FABRIC's client lacks it
FREE = {"cores": 2, "ram_gb": 10, "disk_gb": 10}  # maximum of a node without extra permissions
LIMITS = {"cores": "VM.NoLimitCPU", "ram_gb": "VM.NoLimitRAM", "disk_gb": "VM.NoLimitDisk"}
NO_LIMIT = "VM.NoLimit"
UNSUPPORTED = ("cirros", "freebsd", "nixos", "openbsd")  # not Linux, or neither apt-get nor dnf
IMAGES_FIX = "such as default_ubuntu_22, default_debian_12 or default_rocky_9; fablib.get_image_names() lists all"


def check_image(image: str, user: str | None) -> None:
    """Raise UserError if nodes with an image cannot be used; `user`: its login user, None if the client knows none."""
    if user is None:
        raise UserError(f"FABRIC's client knows no user of image {image!r}", where="fabric.image", fix=IMAGES_FIX)
    if any(system in image for system in UNSUPPORTED):
        raise UserError(f"the system of image {image!r} is not supported", where="fabric.image", fix=IMAGES_FIX)


def nic_tag(model: str) -> str:
    """Return the permission tag of a NIC model."""
    return f"Component.Smart{model}"


def has_large_disks(tags: Collection[str]) -> bool:
    """Return whether a project with these tags may have nodes with more disk than FREE."""
    return bool({LIMITS["disk_gb"], NO_LIMIT} & set(tags))


def permitted_request(request: ResourceRequest, tags: Collection[str]) -> ResourceRequest:
    """Return a request with the disk that a project with these tags may have."""
    if has_large_disks(tags):
        return request
    return replace(request, disk_gb=min(request.disk_gb, FREE["disk_gb"]))


def permitted_nics(models: Sequence[str], tags: Collection[str]) -> list[str]:
    """Return the NIC models that a project with these tags may use, in the same order."""
    return [model for model in models if {SMART_NIC, nic_tag(model)} & set(tags)]


def mirror_tags(settings: FabricSettings) -> list[tuple[str, ...]]:
    """Return the permission tags that mirrors need: any one of each tuple.

    Mirrors within the user's slice need only the tag of a NIC.
    """
    nic_tags = (*map(nic_tag, settings.nics), SMART_NIC)
    return [nic_tags] if settings.nodes == "own" else [(MIRRORING,), nic_tags]


def required_tags(settings: FabricSettings, request: ResourceRequest) -> list[tuple[str, ...]]:
    """Return the permission tags that a project needs: any one of each tuple."""
    return mirror_tags(settings) + [(tag, NO_LIMIT) for key, tag in LIMITS.items() if getattr(request, key) > FREE[key]]


def missing_tags(settings: FabricSettings, request: ResourceRequest, tags: Collection[str]) -> list[str]:
    """Return the tags that a project lacks, each as `A` or `A or B`."""
    return [" or ".join(names) for names in required_tags(settings, request) if not set(names) & set(tags)]


def check_tags(settings: FabricSettings, request: ResourceRequest, tags: Collection[str]) -> None:
    """Raise UserError if the project lacks tags; FABRIC's client would submit the request without them."""
    missing = missing_tags(settings, request, tags)
    if missing:
        raise UserError(
            f"the project lacks the permission {', '.join(missing)}",
            where=credentials.WHERE,
            fix="request it in FABRIC's portal (docs/fabric.md)",
        )


def describe(
    settings: FabricSettings, where: str, instances: int | None, request: ResourceRequest, *, allocates: bool = True
) -> list[str]:
    """Return the resources that a collection will request, and the local requirements that are missing, one line each.

    `where` describes the sites; `instances` is the maximum per site, None for as many as its ports need. `allocates`:
    whether listening nodes are allocated.
    """
    credentials_ = credentials.find(settings.fabric_rc)
    configured = f"testbed fabric, configured by {credentials_.rc or 'the environment (no fabric_rc found)'}"
    missing = [] if importlib.util.find_spec(CLIENT) else ["FABRIC's client: make setup-fabric"]
    missing = [f"missing: {line}" for line in (*missing, *credentials_.missing())]
    if not allocates:
        return [configured, f"sites: {where}", *missing]
    nodes = (
        "as many nodes as its ports need" if instances is None else f"at most {instances} node{'s' * (instances > 1)}"
    )
    mirror_text = "moved from port to port during the collection" if settings.move_mirrors else (
        "fixed to their first port (fabric.move_mirrors is false)"
    )  # fmt: skip
    permissions = ", ".join(" or ".join(names) for names in required_tags(settings, request))
    slices, lease = (
        "one slice per site, acapella-<campaign>-<site>",
        [f"lease: {settings.lease_h} h, extended before it ends"],
    )
    foreign = ["other users' traffic: only with FABRIC's consent (docs/fabric.md)"]
    if settings.nodes == "own":
        slices, lease, foreign = "nodes are added to your slice (fabric.nodes: own) and removed at the end", [], []
    lines = [
        configured,
        f"sites: {where}; {slices}",
        f"per site: {nodes}, each with {request.cores} cores, {request.ram_gb} GB of memory, "
        f"{request.disk_gb} GB of disk ({settings.image}) and one dedicated NIC of {PORTS_PER_NIC} ports "
        f"({', else '.join(settings.nics)})",
        *lease,
        f"mirrors: {PORTS_PER_NIC} per node, {mirror_text}",
        f"project permissions: {permissions}",
        *foreign,
    ]
    return [*lines, *replay_lines(settings), *missing]


def replay_lines(settings: FabricSettings) -> list[str]:
    """Return the lines of a plan about the replay; [] if there is none."""
    if settings.replay is None:
        return []
    from . import replay  # noqa: PLC0415 - imports numpy and pyarrow

    return replay.describe(settings.replay)
