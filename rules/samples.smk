# samples: no rules, but the objects of acapella.snakefile that rules share; they contain the samples, batches, trials
# and optional stages of the campaign.
#
# files: the sheet is read immediately. Other testbeds: the samples are known after the checkpoint collect. A campaign
# of transfers may have no samples (HAS_SAMPLES): rules figures and report then have no inputs from stages that process
# samples.
# acapella.snakefile does not import acapella_capture: this file passes its functions.

import functools

from acapella.snakefile import cleanup, optional_stages, quarantine, resources, sample_names
from acapella.snakefile.batches import Batches, batched_stages, sharded_stages
from acapella.snakefile.cached_digests import CachedDigests, ReplacedCaptures
from acapella.snakefile.storage.captures import CaptureStorage
from acapella.snakefile.collection import Collection, CollectionFunctions, collection_config
from acapella.snakefile.resources import ACAP_SHARE, REPORT_SHARE, TOGETHER_MIB, memory_limit, run_minutes
from acapella.snakefile.sample_sheet import SampleSheet
from acapella.snakefile.samples import Samples, collected_captures, read_collected
from acapella.snakefile.trials import Trials

TRIALS = Trials(config["trials"] or {})
ENVIRONMENTS = [*TRIALS.environments]
REPORTED = optional_stages.available_flowreports(config)
HAS_SAMPLES = configuration.has_samples(config)
OPTIONAL_STAGES = optional_stages.optional_stages(config, REPORTED)
CACHED_DIGESTS = CachedDigests(workflow, CAMPAIGN)
optional_stages.report_empty_figures(config)
COLLECTED_SHEET = f"{CAMPAIGN}/raw/samples.tsv"

if config["testbed"] == "files":
    from acapella_capture.testbeds import files as files_testbed

    with exit_on_user_error("config error: "):
        SHEET = SampleSheet.read(
            config["samples"] if HAS_SAMPLES else None,
            read=files_testbed.read_sheet,
            fault_of=files_testbed.unreadable,
            empty=files_testbed.no_samples,
            objects=CaptureStorage(storage, config["capture_storage"], files_testbed.unreadable),
        )
        check_captures(config, SHEET.rows.values())
        sample_names.check_names(sample_names.configured_names(config), SHEET.rows, f"of {SHEET.path}")
    # Samples that failed in an earlier run are in no table; those whose flow reports failed, only in none of these.
    OMITTED = quarantine.omitted_samples(CAMPAIGN, config, SHEET.captures, SHEET.manifest_values)
    FAILED, WITHOUT_REPORTS = quarantine.by_stage(CAMPAIGN, OMITTED)
    EXCLUDED = [*config["exclude"], *FAILED]
    # A job does not check all captures, nor request the headers of all objects in storage.
    if not is_without_captures(config) and is_main_process(workflow):
        SHEET.print_warnings(EXCLUDED, lambda: is_dry_run(workflow))
    SAMPLES = Samples(CAMPAIGN, EXCLUDED, SHEET.samples, SHEET.is_readable)
    # A sample's capture, or the version of its object, and its values in the sheet, for batches and records of
    # failures.
    recorded_capture, recorded_values = SHEET.recorded_capture, SHEET.manifest_values
else:
    from acapella_capture import collect, precheck, settings
    from acapella_capture.plan import dry_run
    from acapella_capture.plan.samples import NotKnownInAdvance

    with exit_on_user_error("config error: "):
        COLLECTION = Collection(
            config,
            CollectionFunctions(
                keys=settings.KEYS,
                parse=lambda selected: settings.parse_settings(selected, where=None),
                check_programs=precheck.check,
                planned_samples=collect.planned,
                unknown_in_advance=NotKnownInAdvance,
                describe_plan=dry_run.dry_run,
            ),
        )
        COLLECTION.check(collected=Path(COLLECTED_SHEET).exists())
    with exit_on_user_error("error: "):
        OMITTED = quarantine.omitted_samples(CAMPAIGN, config, lambda _: collected_captures(CAMPAIGN))
    FAILED, WITHOUT_REPORTS = quarantine.by_stage(CAMPAIGN, OMITTED)
    EXCLUDED = [*config["exclude"], *FAILED]
    SAMPLES = Samples(CAMPAIGN, EXCLUDED, lambda: read_collected(checkpoints.collect.get().output.sheet, CAMPAIGN))
    recorded_capture, recorded_values = lambda sample: SAMPLES[sample].capture, lambda sample: []

NUMBER_OF_SAMPLES = (lambda wildcards: len(SHEET.rows)) if config["testbed"] == "files" else SAMPLES.number_in_campaign
memory_mb = functools.partial(resources.memory_mb, campaign=NUMBER_OF_SAMPLES)
constant_memory_mb = functools.partial(resources.constant_memory_mb, campaign=NUMBER_OF_SAMPLES)

REPLACED_CAPTURES = ReplacedCaptures(
    workflow,
    CAMPAIGN,
    SHEET.local_capture if config["testbed"] == "files" else lambda sample: None,
    lambda sample: [f"raw/{sample}.json", f"acap/{sample}.parquet", f"flows/{sample}.parquet", *TRIALS.outputs(sample)],
)

# With batches, outputs of rules collect (files), digest, analyze and flowreports are lists of samples (acapella.campaign.batches).
FILES = config["testbed"] == "files"
BATCHES = Batches(
    workflow,
    CAMPAIGN,
    SAMPLES,
    config["batches"],
    stages=batched_stages(config),
    is_damaged=CACHED_DIGESTS.is_damaged,
    values=recorded_values,
    stored=SHEET.stored if FILES else lambda sample: None,
    selected=lambda: SAMPLES.selected(REPORTED["samples"], without=WITHOUT_REPORTS),
)
BATCHED = len(BATCHES.stages) > 0
if "collect" in BATCHES.stages:
    SAMPLES.manifest_list = lambda sample: BATCHES.output_with("collect", sample)
