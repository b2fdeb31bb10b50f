"""The names of all figures, in the order of the report; each figure is a module of this package."""

import importlib
from types import ModuleType
from typing import NamedTuple


class Missing(NamedTuple):
    """Numbers of samples that are missing because they failed: from all tables, and only from those of flow reports."""

    samples: int = 0
    reports: int = 0


TRAFFIC_FIGURES = (
    "header_depth",
    "header_occurrence",
    "encapsulations",
    "frame_sizes",
    "header_stack_sizes",
    "flows_per_sample",
    "flow_sizes",
    "flow_times",
    "throughput",
    "capture_quality",
)
TRIAL_FIGURES = (  # for campaigns that compare trials
    "kappa_environments",
    "kappa_components",
    "kappa_timeline",
    "kappa_matrix",
    "iat_delta",
    "latency_delta",
    "reordering_spacing",
)
REPLAY_FIGURES = ("kappa_replayer",)  # for trials whose departures were measured
COLLECTION_FIGURES = ("outcomes", "outcome_reasons")  # for all campaigns that sampled a testbed
STORAGE_FIGURES = ("storage_latency",)  # for the storage study
FLOWREPORT_FIGURES = ("flowreport_accuracy", "flowreport_memory", "flowreport_rate")  # for samples with flow reports
FLOWSTUDY_FIGURES = (
    "flowreport_response",
    "flowreport_success",
)  # for measurements of flow reports on this machine

MONITOR_FIGURES = ("monitor_flows", "monitor_latency")  # for generated traffic that a monitor counted
SEARCH_FIGURES = ("monitor_rates",)  # for searches for the highest rate without loss
TRANSFER_FIGURES = (  # for transfer experiments
    "transfer_throughput",
    "transfer_completion",
    "transfer_gain",
    "transfer_retransmits",
    "transfer_streams",
    "transfer_per_stream",
    "transfer_fairness",
    "transfer_ratios",
    "transfer_queueing",
    "transfer_agreement",
)

MODEL_FIGURES = ("infrastructure_ports",)  # for the infrastructure study: from the information model
SLICE_FIGURES = (  # from slice records
    "infrastructure_slice_sites",
    "infrastructure_slice_durations",
    "infrastructure_simultaneous",
)
TELEMETRY_FIGURES = ("infrastructure_weeks", "infrastructure_utilization", "infrastructure_activity")  # from counters
INFRASTRUCTURE_FIGURES = (*MODEL_FIGURES, *SLICE_FIGURES, *TELEMETRY_FIGURES)

SAMPLE_FIGURES = (*TRAFFIC_FIGURES, *TRIAL_FIGURES, *REPLAY_FIGURES, *FLOWREPORT_FIGURES)  # drawn from samples


def all_figures() -> tuple[str, ...]:
    """Return the names of all figures that a campaign can have."""
    return (
        *TRAFFIC_FIGURES,
        *TRIAL_FIGURES,
        *REPLAY_FIGURES,
        *COLLECTION_FIGURES,
        *STORAGE_FIGURES,
        *FLOWREPORT_FIGURES,
        *FLOWSTUDY_FIGURES,
        *TRANSFER_FIGURES,
        *INFRASTRUCTURE_FIGURES,
        *MONITOR_FIGURES,
        *SEARCH_FIGURES,
    )


def figure_module(name: str) -> ModuleType:
    """Return the module of a figure. This imports Altair.

    A module has ``SUBJECT``, ``ABOUT`` (one sentence for the report), ``TABLE``, ``COLUMNS`` and ``draw(source)``, and
    ``SCOPE`` unless it shows traffic statistics.
    """
    return importlib.import_module(f"acapella.figures.{name}")
