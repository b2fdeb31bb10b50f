"""How the FABRIC on loopback behaves: a table of behaviors with their sources, and the faults that tests switch on.

Sources: client 2.0.9 (fabrictestbed-extensions), orchestrator 30e67e21 (2026-08), information model 19229ee (2024-12),
Patchwork and its public run notes (2025). A source "not known" marks a behavior that protects against a possibility.
"""

from dataclasses import dataclass, field

UNSTABLE = ("Nascent", "Configuring", "Modifying")
PAGE = 200  # most slices in one reply


@dataclass(frozen=True)
class Behavior:
    """A row of the table; `switch` is the field of Faults or Nodes that enables it, None if it always holds."""

    name: str
    source: str
    switch: str | None = None


BEHAVIORS = (
    Behavior(
        "delete_of_an_unstable_slice_is_refused",
        'orchestrator, delete_slice: HTTP 500 "not yet stable, try again later" while the slice is Nascent, '
        "Configuring or Modifying",
    ),
    Behavior(
        "renewed_slice_is_configuring",
        "orchestrator, renew_slice: the slice goes to Configuring",
    ),
    Behavior(
        "lease_is_cut_without_an_error",
        "orchestrator, renew_slice: the lease is cut to the allowed maximum without an error",
        "lease_limit_h",
    ),
    Behavior(
        "slice_without_a_requested_lease_lasts_a_day",
        "client, Slice.submit: by default, the slice remains active for 24 hours",
    ),
    Behavior(
        "hosts_have_the_state_of_their_site",
        "orchestrator, resources_summary: each host's state is its site's state, PartMaint included",
    ),
    Behavior(
        "modification_needs_a_stable_slice",
        "orchestrator, modify_slice: accepted only from StableOK or StableError",
    ),
    Behavior(
        "failed_modification_needs_accept",
        "orchestrator, modify_slice; client, Slice.update: after ModifyError the client calls accept first",
        "modify_fails",
    ),
    Behavior(
        "failed_service_fails_later_modifications",
        "orchestrator: one failed service seems to make later modifications end in ModifyError (not certain)",
        "failed_service_stays",
    ),
    Behavior(
        "missing_permissions_are_refused",
        "authorization policy 2025-06: a NIC needs Component.SmartNIC or the tag of its model, a mirror of another "
        "slice's port needs Net.PortMirroring; Net.PortMirror is unknown; a node above 2 cores, 10 GB of memory or "
        "10 GB of disk needs VM.NoLimit* (the HTTP status is not known)",
    ),
    Behavior(
        "receiver_with_a_mirror_is_refused",
        "orchestrator, process_slice: a new mirror service has to be possible before the old one on the same "
        "receiver is closed",
    ),
    Behavior(
        "search_is_ignored",
        "orchestrator, list_slices: the server ignores search",
    ),
    Behavior(
        "list_is_paged",
        "orchestrator, list_slices: 200 is the maximum of limit",
        "page",
    ),
    Behavior(
        "ports_include_other_interfaces",
        "telemetry: interface names include Optics0/0/0/5, CoherentDSP..., PTP0/RP0/...; links and switches have "
        "Bundle-Ether*",
    ),
    Behavior(
        "created_although_the_answer_was_lost",
        "client, POST /slices/creates: retried on 5xx, so that a slice can exist although submit failed",
        "lost_answers",
    ),
    Behavior(
        "created_slice_is_listed_late",
        "not known; the client gives up a request after 30 s",
        "hidden",
    ),
    Behavior(
        "slow_answers",
        "run notes of Patchwork: timeouts that were too low failed most sites",
        "latency_s",
    ),
    Behavior(
        "too_many_requests",
        "client, retries of HTTP 429",
        "too_many",
    ),
    Behavior(
        "token_expires_during_a_run",
        "run notes of Patchwork: a token expired while all sites were in progress",
        "expire_after",
    ),
    Behavior(
        "bastion_drops_connections",
        "not known; the client closes and opens connections again",
        "drop_every",
    ),
    Behavior(
        "management_is_ipv6_only",
        "client, Node.get_management_ip: the management address may be IPv6",
        "ipv6_management",
    ),
)


@dataclass
class Faults:
    """Active faults, until a test removes them."""

    create_status: list[int] = field(default_factory=list)  # status of the next POSTs; a 5xx creates the slice
    refuse: bool = False  # allocations end in StableError for lack of resources
    notice: str = "Insufficient resources : ['disk']"
    queries: int = 1  # number of queries during which a new slice is Configuring
    first_mirrors_fail: bool = False  # creations of slices with mirrors fail
    stuck: bool = False  # slices stay Configuring, modifications Modifying
    modify_fails: bool = False
    failed_service_stays: bool = False  # after a failed modification all later ones end in ModifyError
    kept: str | None = None  # name of a slice that cannot be deleted
    no_summary: bool = False
    metrics_status: int = 200
    lease_limit_h: float = 15 * 24
    page: int = PAGE
    lost_answers: list[str] = field(default_factory=list)  # path prefixes of the next requests without an answer
    hidden: int = 0  # number of lists without the slices that exist now
    latency_s: float = 0
    too_many: int = 0  # number of the next requests that are refused
    expire_after: int | None = None  # requests until all tokens expire, once
    ipv6_management: bool = False
