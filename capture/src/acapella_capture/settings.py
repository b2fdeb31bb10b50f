"""The part of the config that collect uses; schemas/config.schema.json defines keys, types and defaults."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from acapella_core import schemas, unique_keys
from acapella_core.errors import UserError
from acapella_core.validation import first_error, with_defaults

KEYS = ("testbed", "samples", "runs", "capture", "collect", "preprocess", "local", "fabric", "digest")


@dataclass(frozen=True)
class CaptureSettings:
    """Settings of captures; see the schema for each key."""

    method: str | dict[str, str]  # for all nodes, or by node or site, with a default
    format: str
    snaplen: int
    buffer_kib: int
    filter: str | None
    sample_s: float
    samples_per_port: int
    directions: list[str]
    one_in: int
    one_in_by: str
    p4_program: str
    p4_control: str | None

    def for_node(self, site: str, node: str) -> Self:
        """Return the settings of a listening node: its own method, else its site's, else the default."""
        by_name = methods_by_name(self.method)
        return replace(self, method=by_name.get(node) or by_name.get(site) or by_name["default"])


def methods_by_name(method: str | dict[str, str]) -> dict[str, str]:
    """Return the capture methods by node or site; the method of all others is `default`."""
    return {"default": method} if isinstance(method, str) else method


@dataclass(frozen=True)
class SignalSettings:
    """Signals to the user's experiment; see the schema for each key."""

    file: str | None
    start: str | None
    stop: str | None
    timeout_s: float


@dataclass(frozen=True)
class CollectSettings:
    """Sites, ports, times and resources of samples; see the schema for each key."""

    mode: str
    sites: list[str]
    slice: str | None
    instances: int | None
    cores: int
    ram_gb: int
    disk_gb: int
    port_selection: str
    ports: dict[str, list[str]] | None
    busiest_every: int
    idle_bps: float
    telemetry_s: float
    telemetry_wait_s: float
    seed: int
    samples_per_run: int
    runs_per_cycle: int
    sample_period_s: float | None
    move_half: bool
    cycles: int | None
    total_s: float | None
    gather: str
    digest_on: str
    compress: bool
    fetch_tries: int
    watch_s: int
    disk_reserve_mb: int
    mean_frame_bytes: int
    lease_margin_s: float
    signal: SignalSettings | None


@dataclass(frozen=True)
class PreprocessSettings:
    """Processing of captures on their nodes before they are fetched; see the schema for each key."""

    anonymize: bool
    key_file: str | None
    macs: str
    program: str | None


@dataclass(frozen=True)
class ReplayEnvironment:
    """Conditions of replays; see the schema for each key."""

    name: str
    sender: str
    replayers: int = 1
    speed: float = 1
    path: str = "shared"
    noise: bool = False


@dataclass(frozen=True)
class ReplaySettings:
    """The capture that the local testbed replays; see the schema for each key."""

    capture: str | None
    sender: str
    repeats: int
    environments: tuple[ReplayEnvironment, ...]
    polling: str
    bottleneck_mbps: float
    load_streams: int


@dataclass(frozen=True)
class LinkSettings:
    """Delay, loss, reordering and duplication of an emulated link; see the schema for each key."""

    delay_ms: float = 0
    loss_percent: float = 0
    reorder_percent: float = 0
    duplicate_percent: float = 0
    seed: int = 0


@dataclass(frozen=True)
class GenerateEnvironment:
    """Conditions of generated traffic; see the schema for each key."""

    name: str
    path: str = "direct"
    link: LinkSettings | None = None
    replayers: int = 1  # always one generator
    noise: bool = False  # no other traffic


@dataclass(frozen=True)
class GenerateSettings:
    """The traffic that the local testbed generates and monitors; see the schema for each key."""

    model: str
    repeats: int
    environments: tuple[GenerateEnvironment, ...]
    bottleneck_mbps: float


@dataclass(frozen=True)
class LocalSettings:
    """Topology and traffic of the local testbed; see the schema for each key."""

    switch: str
    sites: int
    hosts_per_site: int
    slices: list[dict] | None
    resources: dict[str, int]
    counters_s: float | None
    telemetry: str
    mtu: int
    port_rate_mbps: float
    mirror_rate_mbps: float | None
    replay: ReplaySettings | None
    generate: GenerateSettings | None
    traffic: list[dict]


@dataclass(frozen=True)
class FabricSender:
    """A node of the user's slice that replays, its interface, and the other end of the path."""

    node: str
    interface: str
    destination_mac: str


@dataclass(frozen=True)
class FabricReplayEnvironment:
    """Conditions of replays on testbed fabric; the schema describes the keys."""

    name: str
    replayers: int = 1
    speed: float = 1

    def senders(self, settings: "FabricReplaySettings") -> tuple["FabricSender", ...]:
        """Return the senders that replay together."""
        return settings.senders[: self.replayers]


@dataclass(frozen=True)
class FabricReplaySettings:
    """The capture that testbed fabric replays, its senders and recording port; the schema describes the keys."""

    capture: str | None
    repeats: int
    environments: tuple[FabricReplayEnvironment, ...]
    slice: str
    senders: tuple[FabricSender, ...]
    site: str
    port: str
    direction: str


@dataclass(frozen=True)
class FabricSettings:
    """Resources, timeouts and retries on FABRIC; see the schema for each key."""

    fabric_rc: str | None
    nodes: str
    nics: list[str]
    image: str
    move_mirrors: bool
    move_in_two_steps: bool
    lease_h: int
    wait_timeout_s: float
    mirror_timeout_s: float
    release_timeout_s: float
    poll_s: float
    ssh_tries: int
    ssh_retry_s: float
    part_mb: int
    telemetry_url: str
    site_models: str | None
    replay: FabricReplaySettings | None


@dataclass(frozen=True)
class Settings:
    """All settings of collect."""

    testbed: str
    samples: Path | None
    runs: int
    capture: CaptureSettings
    collect: CollectSettings
    preprocess: PreprocessSettings
    local: LocalSettings
    fabric: FabricSettings
    limits: dict[str, Any]  # limits on decompression for testbed files


def read_settings(path: Path) -> Settings:
    """Read a config file. Raises UserError naming the wrong key."""
    config = read_config(path)
    return parse_settings({key: config[key] for key in KEYS if key in config}, where=path)


def read_config(path: Path) -> dict[str, Any]:
    """Return the keys of a config file, without defaults. Raises UserError naming the wrong key.

    Keys that only other stages use are also checked with the schema.
    """
    try:
        config = unique_keys.load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(unique_keys.describe(error), where=path) from error
    if not isinstance(config, dict):
        raise UserError("not a mapping of keys to values", where=path)
    own_keys = {key: value for key, value in config.items() if key != "pathvars"}  # Snakemake uses it
    check_schema(own_keys, schemas.json_schema("config") | {"required": []}, path)
    return config


def checked(config: dict[str, Any], keys: Iterable[str], *, where: object) -> dict[str, Any]:
    """Return some keys of a config with the schema's defaults. Raises UserError naming the wrong key."""
    config_schema = schemas.json_schema("config")
    schema = {**config_schema, "properties": {key: config_schema["properties"][key] for key in keys}, "required": []}
    check_schema(config, schema, where)
    return with_defaults(config, schema)


def check_schema(value: Any, schema: dict, where: object) -> None:
    """Raise UserError naming the key and the error if a value does not match a JSON schema."""
    error = first_error(value, schema)
    if error is not None:
        raise UserError(error, where=where)


def parse_settings(config: dict[str, Any], *, where: object = "config") -> Settings:
    """Return settings from the relevant keys of a config, with defaults. Raises UserError naming the wrong key."""
    values = checked(config, KEYS, where=where)
    if values["testbed"] == "files" and not values["samples"]:
        raise UserError("samples: missing; testbed files requires a sample sheet", where=where)
    values["capture"]["p4_program"] = resolve_program(values["capture"]["p4_program"])
    check_methods(values, where)
    check_combinations(values, where)
    return Settings(
        testbed=values["testbed"],
        samples=Path(values["samples"]) if values["samples"] else None,
        runs=values["runs"],
        capture=CaptureSettings(**values["capture"]),
        collect=collect_settings(values["collect"]),
        preprocess=PreprocessSettings(**values["preprocess"]),
        local=local_settings(values["local"], where),
        fabric=fabric_settings(values["fabric"], where),
        limits={key: values["digest"][key] for key in ("max_decompressed", "max_ratio")},
    )


def resolve_program(path: str) -> str:
    """Return the path of a P4 program; the default program is found from any working directory."""
    default = schemas.json_schema("config")["properties"]["capture"]["properties"]["p4_program"]["default"]
    if path != default or Path(path).is_file():
        return path
    return str(schemas.root().parent / path)


def check_methods(values: dict[str, Any], where: object) -> None:
    """Check capture.method beyond the schema. Raises UserError naming the wrong key."""
    capture = values["capture"]
    methods = sorted(set(methods_by_name(capture["method"]).values()))
    for key in ("p4_program", "p4_control"):
        if "fpga" in methods and capture[key] is not None and not Path(capture[key]).is_file():
            raise UserError(f"capture.{key}: no file {capture[key]}; method fpga requires it", where=where)
    if capture["one_in"] > 1 and "tcpdump" in methods:
        raise UserError("capture.one_in: not supported by method tcpdump; use dpdk or fpga", where=where)
    if capture["format"] == "pcapng" and "tcpdump" in methods:
        raise UserError("capture.format: pcapng is not supported by method tcpdump; use dpdk or fpga", where=where)
    if capture["format"] == "pcapng" and values["preprocess"]["anonymize"]:
        raise UserError(
            "capture.format: preprocess.anonymize only supports pcap, because pcapng contains hashes of whole frames",
            where=where,
        )


def check_combinations(values: dict[str, Any], where: object) -> None:
    """Check combinations of keys that the schema cannot express. Raises UserError naming the wrong key."""
    if values["collect"]["mode"] == "slice" and not values["collect"]["slice"]:
        raise UserError("collect.slice: missing; mode slice requires the name of a slice", where=where)
    if values["testbed"] == "fabric" and values["fabric"]["nodes"] == "own" and values["collect"]["mode"] != "slice":
        raise UserError("fabric.nodes: own requires collect.mode: slice, and collect.slice", where=where)
    check_digest_on(values, where)
    if values["preprocess"]["anonymize"] and not values["preprocess"]["key_file"]:
        raise UserError(
            "preprocess.key_file: missing; anonymize requires a key: acapella anonymize --new-key FILE", where=where
        )


def check_digest_on(values: dict[str, Any], where: object) -> None:
    """Check that nothing needs captures that are not fetched. Raises UserError naming the wrong key."""
    testbed = values["testbed"]
    if values["collect"]["digest_on"] == "here":
        return
    if testbed == "files":
        raise UserError("collect.digest_on: node: testbed files has no nodes; use here", where=where)
    for key in ("replay", "generate"):
        if values[testbed].get(key) is not None:
            raise UserError(
                f"collect.digest_on: node: the trials of {testbed}.{key} need their captures; use here", where=where
            )


def collect_settings(values: dict[str, Any]) -> CollectSettings:
    """Return the settings of section `collect`."""
    signal = values["signal"]
    return CollectSettings(**(values | {"signal": signal and SignalSettings(**signal)}))


def local_settings(values: dict[str, Any], where: object) -> LocalSettings:
    """Return the settings of section `local`. Raises UserError naming the wrong key."""
    replay = values["replay"]
    if replay is not None:
        environments = tuple(replay_environment(value, replay["sender"]) for value in replay["environments"])
        check_environments(environments, where)
        replay = ReplaySettings(**(replay | {"environments": environments}))
    generate = values["generate"] and generate_settings(values["generate"], where)
    if replay and generate:
        names = [environment.name for environment in (*replay.environments, *generate.environments)]
        check_unique(names, "local.replay.environments and local.generate.environments: name {}", where)
    return LocalSettings(**(values | {"replay": replay, "generate": generate}))


def generate_settings(values: dict[str, Any], where: object) -> GenerateSettings:
    """Return the settings of section `local.generate`. Raises UserError naming the wrong key."""
    environments = tuple(
        GenerateEnvironment(**(value | {"link": LinkSettings(**value["link"]) if value.get("link") else None}))
        for value in values["environments"]
    )
    check_unique([environment.name for environment in environments], "local.generate.environments[{}].name", where)
    for index, environment in enumerate(environments):
        if environment.link and environment.path == "shared":
            key = f"local.generate.environments[{index}].link"
            raise UserError(f"{key}: not available on path shared; set path: direct or dedicated", where=where)
    return GenerateSettings(**(values | {"environments": environments}))


def fabric_settings(values: dict[str, Any], where: object) -> FabricSettings:
    """Return the settings of section `fabric`. Raises UserError naming the wrong key."""
    replay = values["replay"]
    if replay is not None:
        senders = tuple(FabricSender(**value) for value in replay["senders"])
        check_unique([f"{sender.node} {sender.interface}" for sender in senders], "fabric.replay.senders[{}]", where)
        environments = tuple(
            FabricReplayEnvironment(**(value | {"replayers": value.get("replayers") or len(senders)}))
            for value in replay["environments"]
        )
        check_unique([environment.name for environment in environments], "fabric.replay.environments[{}].name", where)
        for index, environment in enumerate(environments):
            if environment.replayers > len(senders):
                key = f"fabric.replay.environments[{index}].replayers"
                raise UserError(
                    f"{key}: {environment.replayers} is more than the number of fabric.replay.senders", where=where
                )
        replay = FabricReplaySettings(**(replay | {"senders": senders, "environments": environments}))
    return FabricSettings(**(values | {"replay": replay}))


def replay_environment(value: str | dict[str, Any], sender: str) -> ReplayEnvironment:
    """Return an environment of replays; `quiet` and `loaded` are abbreviations."""
    given = {"name": value, "noise": value == "loaded"} if isinstance(value, str) else value
    return ReplayEnvironment(**(given | {"sender": given.get("sender") or sender}))


def check_environments(environments: tuple[ReplayEnvironment, ...], where: object) -> None:
    """Check combinations of keys that the schema cannot express. Raises UserError naming the wrong key."""
    check_unique([environment.name for environment in environments], "local.replay.environments[{}].name", where)
    for index, environment in enumerate(environments):
        key = f"local.replay.environments[{index}]"
        if environment.replayers > 1 and environment.sender != "acapella":
            raise UserError(
                f"{key}.replayers: tcpreplay cannot start at an absolute time; set sender: acapella", where=where
            )


def check_unique(names: Sequence[str], key: str, where: object) -> None:
    """Raise UserError if a name occurs twice. ``key``: key of a name, with {} for its index."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise UserError(f"{key.format(index)}: {name!r} occurs twice", where=where)
