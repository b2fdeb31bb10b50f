"""Writes ro-crate-metadata.json of a release: how its results were computed, as a Provenance Run Crate 0.5.

https://www.researchobject.org/workflow-run-crate/profiles/provenance_run_crate/. The file contains neither job times,
nor user or host names. The package rocrate creates it; without this package, the file is omitted.
"""

import json
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from acapella import __version__
from acapella.campaign.monitor import DIRECTORY as GENERATED
from acapella_core.files import atomic_path, atomic_text, sha256_of

from . import croissant
from .infrastructure import DIRECTORY as INFRASTRUCTURE
from .reproducible import CONFIG, RESULTS, SHEET
from .transfers import DIRECTORY as TRANSFERS

FILE = "ro-crate-metadata.json"
WORKFLOW = f"{RESULTS}/workflow"  # Snakefile and rules
MAIN = f"{WORKFLOW}/Snakefile"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
STEPS = {
    "digest": "convert a capture to a frame table (acap) and a flow table",
    "process": "index all frame and flow tables, analyze each sample, and merge the results into tables",
    "trials": "compare trials of the same traffic",
    "flowtables": "run the P4 program on captures, and merge its flow reports into tables",
    "transfer_tables": "compute the tables of transfers from their runs",
    "monitor": "merge a monitor's counts from trials of generated traffic into tables",
    "infrastructure": "compute the tables of the infrastructure study from its inputs",
    "figures": "draw the figures of the tables",
}
OPTIONAL_TABLES = {  # prefix of the tables' names, by step
    **{"trials": "tables/consistency", "flowtables": "tables/flowreport_", "transfer_tables": "tables/transfer_"},
    **{"monitor": "tables/monitor_", "infrastructure": "tables/infrastructure_"},
}
STUDIES = {  # directory of the inputs, by step
    **{"transfer_tables": TRANSFERS, "monitor": GENERATED, "infrastructure": INFRASTRUCTURE},
}
SAMPLE_STEPS = ("digest", "process")
SNAKEMAKE = "https://snakemake.github.io"


def is_available() -> bool:
    """Return whether the package rocrate is installed."""
    return find_spec("rocrate") is not None


def copy_workflow(root: Path, release: Path, mode: int) -> None:
    """Copy the Snakefile and its rules to the release, because the crate has to contain the workflow."""
    for path in (root / "Snakefile", *sorted((root / "rules").glob("*.smk"))):
        target = release / WORKFLOW / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(target, mode) as temporary:
            shutil.copyfile(path, temporary)


def write(release: Path, versions: dict, mode: int = 0o600) -> None:
    """Write the description of the run that created results/ of a release. ``versions``: versions of the software."""
    about = croissant.read(release)
    crate = Crate(release, versions, about)
    content = crate.content()
    atomic_text(release / FILE, json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n", mode)


class Crate:
    """The entities of a release and of the run that created its results."""

    def __init__(self, release: Path, versions: dict, about: dict):
        from rocrate.rocrate import ROCrate  # noqa: PLC0415 - a large package

        self.release, self.versions = release, versions
        self.crate = ROCrate(version="1.1", gen_preview=False)
        self.crate.metadata.extra_terms["sha256"] = (
            "https://schema.org/sha256"  # newer than the context of RO-Crate 1.1
        )
        self.crate.name = croissant.name_of(release)
        self.crate.description = f"{croissant.content_of(release)}; see README.md."
        is_url = about["license"].startswith(("https://", "http://"))
        self.crate.license = (
            self._entity(about["license"], "CreativeWork", name=about["license"]) if is_url else about["license"]
        )
        self.crate.datePublished = about["datePublished"]
        self.files = {name: self._file(name) for name in croissant.described_files(release)}

    def content(self) -> dict:
        """Return the content of ro-crate-metadata.json."""
        tools = {step: self._tool(step) for step in self._steps()}
        workflow = self._workflow(tools)
        actions = [action for step in tools for action in self._actions(step, tools[step])]
        prefixes = ("captures/", *(f"{directory}/" for directory in STUDIES.values()))
        inputs = [self.files[name] for name in self.files if name in (CONFIG, SHEET) or name.startswith(prefixes)]
        results = [self.files[name] for name in self._results("")]
        run = self._action("#run", f"Run of Acapella {__version__}", workflow, inputs, results)
        root = self.crate.root_dataset
        root["conformsTo"] = [self._profile(identifier, name) for identifier, name in PROFILES.items()]
        root["mainEntity"] = workflow
        root["mentions"] = [run, *actions]
        self._orchestration(run, actions)
        return self.crate.metadata.generate()

    def _steps(self) -> list[str]:
        """Return the steps that were run."""
        not_run = () if SHEET in self.files else SAMPLE_STEPS
        steps = [step for step in STEPS if step not in not_run]
        return [step for step in steps if step not in OPTIONAL_TABLES or self._results(OPTIONAL_TABLES[step])]

    def _file(self, name: str):
        """Add a file of the release; return its entity."""
        from rocrate.model.file import File  # noqa: PLC0415

        path = self.release / name
        properties = {
            "name": name,
            "encodingFormat": croissant.format_of(name),
            "contentSize": str(path.stat().st_size),
            "sha256": sha256_of(path),
        }
        if name == MAIN:
            properties["@type"] = ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]
        return self.crate.add(File(self.crate, source=path, dest_path=name, properties=properties))

    def _entity(self, identifier: str, kind: str | Sequence[str], **properties):
        """Add a contextual entity; return it. Values may be entities."""
        from rocrate.model.contextentity import ContextEntity  # noqa: PLC0415

        entity = self.crate.add(ContextEntity(self.crate, identifier, properties={"@type": kind}))
        for name, value in properties.items():
            entity[name] = value
        return entity

    def _profile(self, identifier: str, name: str):
        """Add a profile to which the crate conforms."""
        return self._entity(identifier, "CreativeWork", name=name, version=identifier.rpartition("/")[2])

    def _tool(self, step: str):
        """Add the program of a step."""
        return self._entity(
            f"#tool-{step}",
            "SoftwareApplication",
            name=f"acapella {step}",
            description=STEPS[step],
            softwareVersion=__version__,
            softwareRequirements=[f"{name} {version}" for name, version in self._packages()],
        )

    def _packages(self) -> list[tuple[str, str]]:
        """Return names and versions of the software that determines the bytes of results."""
        names = ("altair", "duckdb", "numpy", "pyarrow", "vl-convert-python")
        packages = [(name, self.versions[name]) for name in names if self.versions.get(name)]
        return packages + [("tshark", version) for version in self.versions.get("tshark") or []]

    def _workflow(self, tools: dict):
        """Turn the Snakefile into the main entity, with a step per program."""
        workflow = self.files[MAIN]
        workflow["name"] = "Acapella"
        workflow["version"] = __version__
        workflow["programmingLanguage"] = self._entity(
            "#snakemake", "ComputerLanguage", name="Snakemake", url=self._entity(SNAKEMAKE, "WebSite", name="Snakemake")
        )
        workflow["hasPart"] = list(tools.values())
        workflow["step"] = [
            self._entity(
                f"#step-{step}",
                "HowToStep",
                name=step,
                position=str(position),
                workExample=tool,
                description=STEPS[step],
            )
            for position, (step, tool) in enumerate(tools.items(), start=1)
        ]
        return workflow

    def _results(self, prefix: str) -> list[str]:
        """Return the files whose names in results/ begin with ``prefix``; if it is empty, all results and digests."""
        all_results = (f"{RESULTS}/tables/", f"{RESULTS}/figures/", "acap/", "flows/")
        return [name for name in self.files if name.startswith(f"{RESULTS}/{prefix}" if prefix else all_results)]

    def _files_in(self, directory: str) -> list[str]:
        """Return the names of the files in a directory."""
        return [name for name in self.files if name.startswith(directory)]

    def _action(self, identifier: str, name: str, instrument, objects: list, results: list):
        """Add the execution of a program or of the workflow."""
        return self._entity(
            identifier,
            "CreateAction",
            name=name,
            description=f"{name}, with the settings in {CONFIG}",
            instrument=instrument,
            object=objects,
            result=results,
            actionStatus="http://schema.org/CompletedActionStatus",
        )

    def _actions(self, step: str, tool) -> list:
        """Add the executions of a step: one per sample for the digest, else one."""
        if step == "digest":
            samples = [Path(name).stem for name in self.files if name.startswith("captures/")]
            return [
                self._action(
                    f"#digest-{sample}",
                    f"digest {sample}",
                    tool,
                    [self.files[f"captures/{sample}.pcap"], self.files[CONFIG]],
                    [self.files[f"{kind}/{sample}.parquet"] for kind in ("acap", "flows")],
                )
                for sample in samples
            ]
        optional = {step: self._results(prefix) for step, prefix in OPTIONAL_TABLES.items()}
        tables = [name for name in self._results("tables/") if not any(name in names for names in optional.values())]
        digests = [name for name in self.files if name.startswith(("acap/", "flows/"))]
        captures = self._files_in("captures/")
        objects, results = {
            "process": ([*digests, CONFIG, SHEET], tables),
            **{step: ([*captures, CONFIG], names) for step, names in optional.items()},
            **{step: ([*self._files_in(f"{inputs}/"), CONFIG], optional[step]) for step, inputs in STUDIES.items()},
            "figures": ([*(name for name in self._results("tables/") if name.endswith(".parquet")), CONFIG],
                        self._results("figures/")),
        }[step]  # fmt: skip
        entities = ([self.files[name] for name in names] for names in (objects, results))
        return [self._action(f"#{step}", step, tool, *entities)]

    def _orchestration(self, run, actions: list) -> None:
        """Add the execution of the workflow engine, which relates each step to its executions."""
        controls = []
        for action in actions:
            step = action.id.removeprefix("#").partition("-")[0]
            controls.append(
                self._entity(
                    f"#control-{action.id.removeprefix('#')}",
                    "ControlAction",
                    name=f"orchestrate {action['name']}",
                    instrument=self.crate.dereference(f"#step-{step}"),
                    object=action,
                )
            )
        engine = self._entity("#engine", "SoftwareApplication", name="Snakemake", url=SNAKEMAKE)
        self._entity(
            "#orchestration", "OrganizeAction", name="Snakemake", instrument=engine, object=controls, result=run
        )
