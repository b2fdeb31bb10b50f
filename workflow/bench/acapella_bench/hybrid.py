"""Compares engine hybrid with tshark dissecting every frame."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import tshark
from acapella.digest import acap_files
from acapella_core import _native
from acapella_core.errors import UserError

from .programs import ROOT, Bench, Measured, digest_words, outputs, peak_words

CORPUS = ROOT.parent / "shared"
TUNNEL_FIELDS = ("vxlan", "geneve", "gre.", "gtp", "l2tp", "pppoe", "ieee8021ah", "erspan", "mpls.bottom")
TUNNEL_RUNS = 5


@dataclass(frozen=True)
class Reference:
    """A run of tshark that prints frame.protocols of the first ``head`` frames."""

    label: str
    same_preferences: bool
    head: int
    goal: str

    def words(self, capture: Path) -> list[str]:
        """Return the command line: with the preferences of engine hybrid, or with tshark's defaults."""
        reference = tshark.find()
        if self.same_preferences:
            return reference_words(capture, ("frame.protocols",))
        return [reference.path, "-r", str(capture), "-T", "fields", "-e", "frame.protocols"]


def reference_words(capture: Path, fields: Sequence[str], **how: bool) -> list[str]:
    """Return the command line of tshark in engine hybrid, for a file instead of standard input."""
    words = tshark.find().command(fields, **how)
    words[words.index("-r") + 1] = str(capture)
    return words


def run_long_flows(bench: Bench) -> list[dict]:
    """Measure long flows in double MPLS pseudowires, separate labels per direction and TLS in every other flow."""
    frames = bench.scale["hybrid"]
    return compare(bench, bench.generate(frames), frames, (">= 20, aim 60", ">= 100, aim 300"))


def run_wrapped(bench: Bench) -> list[dict]:
    """Measure the short flows of the corpus inside FABRIC's encapsulations."""
    wrap, corpus = CORPUS / "tools" / "underlay.py", CORPUS / "corpus" / "ndpi"
    if not (wrap.is_file() and corpus.is_dir()):
        raise UserError("the corpus is not next to the project", where=CORPUS, fix="skip the benchmark wrapped")
    frames = bench.scale["wrapped"]
    capture = bench.directory / "wrapped.pcap"
    bench.run([sys.executable, wrap, "--frames", frames, "-o", capture, corpus])
    return compare(bench, capture, frames, (">= 8", ""))


def compare(bench: Bench, capture: Path, frames: int, goals: tuple[str, str]) -> list[dict]:
    """Return the rates of both engines and of two runs of tshark, and their ratios. ``goals``: of the ratios."""
    native = bench.measure(digest_words(capture, bench.directory, "native"))
    hybrid = bench.measure(peak_words(capture, bench.directory, "hybrid"), keep=True)
    metadata = acap_files.metadata_of(outputs(bench.directory, "hybrid")[0])
    rows = [
        {"measured": "frames", "value": frames, "unit": "frames"},
        rate_row("native", native, frames),
        rate_row("hybrid", hybrid, frames),
        {
            "measured": "hybrid beyond native",
            "value": hybrid.wall_s - native.wall_s,
            "unit": "s",
            "note": "tshark, including its input and output",
        },
        {
            "measured": "frames sent to tshark",
            "value": metadata["tshark"]["frames_sent"],
            "unit": "frames",
            "note": f"{100 * metadata['tshark']['frames_sent'] / frames:.2f} %",
        },
        *peak_rows("hybrid", hybrid.stdout, "< 512"),
    ]
    rows += tunnel_rows(bench, capture)
    references = (
        Reference("tshark, with the same preferences", True, bench.scale["tshark"], goals[0]),
        Reference("tshark, with default preferences", False, bench.scale["tshark_default"], goals[1]),
    )
    for reference in references:
        rows += reference_rows(bench, capture, reference, (hybrid, frames))
    return rows


def tunnel_rows(bench: Bench, capture: Path) -> list[dict]:
    """Return rows on the CPU time that fields of tunnels add to tshark: the minimum of alternating runs."""

    def without(columns: list[str]) -> list[str]:
        remaining = (
            " || ".join(f for f in column.split(" || ") if not f.startswith(TUNNEL_FIELDS)) for column in columns
        )
        return [column for column in remaining if column]

    rows = []
    for label, fields, as_columns in (
        ("hybrid", _native.TSHARK_COLUMNS, True),
        ("tshark", _native.TSHARK_FIELDS, False),
    ):
        selections = {"all": list(fields), "without": without(fields)}
        cpu_s = dict.fromkeys(selections, float("inf"))
        for _ in range(TUNNEL_RUNS):
            for name, names in selections.items():
                words = reference_words(capture, names, as_columns=as_columns)
                run = bench.measure([*words, "-c", str(bench.scale["tshark_default"])], env=tshark.environment())
                cpu_s[name] = min(cpu_s[name], run.cpu_s)
        rows.append(
            {
                "measured": f"tunnel fields in engine {label}",
                "value": 100 * (cpu_s["all"] / cpu_s["without"] - 1),
                "unit": "% CPU time of tshark",
                "goal": "<= 5",
                "note": f"{len(selections['all'])} columns or fields, {len(selections['without'])} without them",
            }
        )
    return rows


def peak_rows(label: str, output: bytes, goal: str, note: str = "") -> list[dict]:
    """Return the peak memory printed by acapella_bench.peak: of the process and, if any, of its largest child."""
    peak = json.loads(output.splitlines()[-1])
    rows = [
        {
            "measured": f"peak memory, {label}",
            "value": peak["own_kib"] / 1024,
            "unit": "MiB",
            "goal": goal,
            "note": note,
        }
    ]
    if peak["children_kib"]:
        rows.append({"measured": "  its largest child", "value": peak["children_kib"] / 1024, "unit": "MiB"})
    return rows


def rate_row(label: str, run: Measured, frames: int) -> dict:
    """Return the row of a run's rate in frames per second."""
    note = f"{run.wall_s:.1f} s"
    return {"measured": label, "value": round(frames / run.wall_s), "unit": "frames/s", "note": note}


def reference_rows(bench: Bench, capture: Path, reference: Reference, measured: tuple[Measured, int]) -> list[dict]:
    """Return the rate of tshark over the head of the file, excluding its startup, and the ratio of hybrid to it."""
    words = reference.words(capture)
    start = bench.measure([*words, "-c", "1"], env=tshark.environment())
    run = bench.measure([*words, "-c", str(reference.head)], env=tshark.environment())
    rate = reference.head / max(run.wall_s - start.wall_s, 1e-9)
    cpu_rate = reference.head / max(run.cpu_s - start.cpu_s, 1e-9)
    hybrid, frames = measured
    ratio, cpu_ratio = frames / hybrid.wall_s / rate, frames / hybrid.cpu_s / cpu_rate
    return [
        {
            "measured": reference.label,
            "value": round(rate),
            "unit": "frames/s",
            "note": f"at most {reference.head:,} frames of the same file, {run.wall_s:.1f} s, without its start",
        },
        {
            "measured": "  hybrid is faster by",
            "value": ratio,
            "unit": "times",
            "goal": reference.goal,
            "note": f"by CPU time {cpu_ratio:.1f}",
        },
    ]
