"""How the FABRIC on loopback behaves: a table of behaviors with their sources, and the faults that tests switch on.

Sources: client 2.0.9 (fabrictestbed-extensions; fabrictestbed 2.0.8), orchestrator 30e67e21 (ControlFramework,
2026-08), information model 19229ee (2024-12), Patchwork and its public run notes (2025). A source "not known" marks a
behavior that protects against a possibility.
"""

from dataclasses import dataclass, field

UNSTABLE = ("Nascent", "Configuring", "Modifying")
PAGE = 200  # most slices in one reply


@dataclass(frozen=True)
class Behavior:
    """A row of the table.

    `switch` is the field of Faults, Nodes or Orchestrator that enables it; None if it always holds.
    """

    name: str
    source: str
    switch: str | None = None


BEHAVIORS = (
    Behavior(
        "refusals_have_status_500",
        "orchestrator, OrchestratorException and cors_error_response: 500 except for codes 400, 401, 403 and 404 "
        "(an unknown slice); the client repeats such a request three times",
    ),
    Behavior(
        "delete_of_an_unstable_slice_is_refused",
        'orchestrator, delete_slices: "not yet stable, try again later" while the slice is Nascent, Configuring or '
        "Modifying; deleting a slice that is Closing or Dead has no effect",
    ),
    Behavior(
        "renewed_slice_is_configuring",
        "orchestrator, renew_slice: the slice goes to Configuring if its lease changes; refused while it is not "
        "stable, and if the granted end is earlier than the current one",
    ),
    Behavior(
        "lease_is_cut_without_an_error",
        "orchestrator, compute_lease_end_time, for creations and renewals: the lease is cut to the allowed maximum",
        "lease_limit_h",
    ),
    Behavior(
        "slice_without_a_requested_lease_lasts_a_day",
        "client, Slice.submit: by default, the slice remains active for 24 hours",
    ),
    Behavior(
        "hosts_have_the_state_of_their_site",
        "orchestrator, resources_summary: each host's state is its site's state, PartMaint included",
        "states",
    ),
    Behavior(
        "site_in_maintenance_refuses_slices",
        "orchestrator, check_maintenance_mode: creations, modifications and renewals with a node at a site in Maint",
        "states",
    ),
    Behavior(
        "host_in_maintenance_refuses_nodes",
        "orchestrator, resources_summary: it is not reported which hosts of a site in PartMaint are in maintenance",
        "sites",
    ),
    Behavior(
        "modification_needs_a_stable_slice",
        "orchestrator, modify_slice: accepted only from StableOK or StableError",
    ),
    Behavior(
        "failed_modification_needs_accept",
        "orchestrator, modify_accept: removes the parts that failed, and makes a slice in ModifyOK or ModifyError "
        "stable; client, Slice.update: calls accept after a modification",
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
        "slice's port needs Net.PortMirroring, more than 2 cores, 10 GB of memory or 10 GB of disk need VM.NoLimit*, "
        "two sites need Slice.Multisite (not imitated); Net.PortMirror is unknown. orchestrator, PdpAuth: status 500",
        "tags",
    ),
    Behavior(
        "receiver_with_a_mirror_is_refused",
        "orchestrator, process_slice: a new mirror service has to be possible before the old one on the same "
        "receiver is closed, so such a modification can fail; here it always fails",
    ),
    Behavior(
        "slice_without_resources_is_stable_error",
        "run notes of Patchwork: slices fail for lack of dedicated NICs; client, Slice.wait: StableError",
        "refuse",
    ),
    Behavior(
        "notice_names_the_reason",
        'broker: "Insufficient resources", "not available in graph node"; other texts are examples',
        "notice",
    ),
    Behavior(
        "slice_with_first_mirrors_fails",
        "not known; a mirror may be refused in a creation for the same reasons as in a modification",
        "first_mirrors_fail",
    ),
    Behavior(
        "slice_takes_time_to_become_active",
        "client, Slice.wait: Nascent and Configuring for minutes",
        "queries",
    ),
    Behavior(
        "slice_stays_in_progress",
        "run notes of Patchwork: every site stuck in progress; moving mirrors triggered a hang of the back end",
        "stuck",
    ),
    Behavior(
        "slice_that_cannot_be_deleted",
        "not known; the client reports an error of the orchestrator",
        "kept",
    ),
    Behavior(
        "search_is_ignored",
        "orchestrator, get_slices: ignores search and exact_match, and compares the whole name",
    ),
    Behavior(
        "list_is_paged",
        "orchestrator, list_slices: 200 is the maximum of limit",
        "page",
    ),
    Behavior(
        "list_has_no_models",
        "orchestrator, get_slices; get_slice_graph with graph_format NONE",
    ),
    Behavior(
        "ports_include_other_interfaces",
        "telemetry: interface names include Optics0/0/0/5, CoherentDSP..., PTP0/RP0/...; links and switches have "
        "Bundle-Ether*, which telemetry excludes. Loopback0 and VLAN sub-interfaces: not known",
    ),
    Behavior(
        "telemetry_is_refused",
        "not known whether every user may read the counters (portal: yes)",
        "metrics_status",
    ),
    Behavior(
        "resources_cannot_be_read",
        "orchestrator, list_resources_summary: 500 if the broker does not answer",
        "no_summary",
    ),
    Behavior(
        "created_although_the_status_is_an_error",
        "client, POST /slices/creates: retried on 5xx, so that a slice can exist although submit failed",
        "create_status",
    ),
    Behavior(
        "created_although_the_answer_was_lost",
        "client, orchestrator_client: repeats a request without an answer, of any method",
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
        "client, orchestrator_client: repeats a request three times after HTTP 429; a limit of FABRIC is not known",
        "too_many",
    ),
    Behavior(
        "token_expires_during_a_run",
        "run notes of Patchwork: a token expired while all sites were in progress; orchestrator, FabricToken.validate: "
        'status 500 "Unable to validate provided token". Credential manager and telemetry: status 401 (not known)',
        "expire_after",
    ),
    Behavior(
        "bastion_drops_connections",
        "not known; the client closes and opens connections again",
        "drop_every",
    ),
    Behavior(
        "bastion_refuses_connections",
        "not known",
        "refusing",
    ),
    Behavior(
        "bastion_refuses_an_expired_key",
        'learn.fabric-testbed.net, "Logging into FABRIC VMs": bastion keys expire after 6 months; client, '
        "FablibManager.probe_bastion_host: bastion hosts block machines with repeated failed logins",
        "expired_key",
    ),
    Behavior(
        "booting_node_refuses_logins",
        "AMHandlers 18c9f98 (2025-01), VMHandler.__build_user_data: a script that cloud-init runs adds the user's keys "
        "to the node, while its SSH server is already running",
        "booting",
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
