"""Compares two digests of one file with DuckDB."""

import contextlib
import csv
import functools
from pathlib import Path

import duckdb
import pyarrow as pa
import yaml

from acapella.common import queries
from acapella_core import schemas

from .results import ABOVE, UNCOMPARED, DisagreementKind, FrameExamples, Result
from .tables import DigestFiles

LAYERS = (
    "frames",
    "time",
    "lengths",
    "link",
    "network",
    "transport",
    "addresses",
    "ports",
    "vlan",
    "mpls",
    "tunnels",
    "tcp",
    "above layer 4",
    "protocols",
)
# A disagreement on these layers is a fault on every frame; on other layers up to layer 4, only on frames that the core
# decided.
ALWAYS_FAULTS = ("frames", "time", "lengths")
TAGS = ("vlan", "mpls", "tunnels")  # also names of columns, which are null if the digest has no values of a frame
BEFORE_MPLS = "both_have and native and split_part(protocols, ':mpls', 1) = split_part(tshark_protocols, ':mpls', 1)"
# The condition on pairs of frames for each value of `excuses` of an erratum.
EXCUSED_IF = {"after_mpls": BEFORE_MPLS, "time": "both_have"}
OUTER_VLANS = (
    "len(list_filter(string_split(split_part(protocols, ':mpls', 1), ':'), lambda x: x in ('vlan', 'ieee8021ad')))"
)
OUTER_VLANS_AGREE = f"vlan[1:{OUTER_VLANS}] is not distinct from tshark_vlan[1:{OUTER_VLANS}]"
# Number of labels before the pseudowire that tshark misinterprets.
OUTER_LABELS = "len(list_filter(string_split(split_part(stack, '/PseudoWire', 1), '/'), lambda x: x = 'MPLS'))"
OUTER_LABELS_AGREE = f"mpls[1:{OUTER_LABELS}] is not distinct from tshark_mpls[1:{OUTER_LABELS}]"
LAYER_OF = {"2": "link", "glue": "link", "3": "network", "4": "transport", "tunnel": "transport"}


def open_database(threads: int) -> contextlib.closing:
    """Return a context manager for a database that is closed at the end of the block."""
    return contextlib.closing(queries.connect(threads=threads))


class Comparison:
    """Compares the frames of one file; ``first``: maximum number of frames listed for each kind."""

    def __init__(self, database, ours: DigestFiles, theirs: DigestFiles, file: Path, first: int):
        self._file, self._first = file, first
        self._database = database
        self._load_tokens([ours.frames, theirs.frames])
        for side, tables in (("ours", ours), ("theirs", theirs)):
            files = {"frames": str(tables.frames), "flows": str(tables.flows), "tags": str(tables.tags)}
            files["every_frame"] = side == "theirs"
            files["fcs_len"] = ours.fcs_len if side == "theirs" else 0
            queries.select(self._database, "verify", "side", files).create(side)
        queries.select(self._database, "verify", "pairs", {}).create("pairs")
        self._find_errata()
        queries.select(self._database, "verify", "differences", {}).create("differences")

    def _load_tokens(self, files: list) -> None:
        """Create the table `tokens`: every distinct value of frame.protocols with its tokens by layer."""
        frames = self._database.read_parquet([str(file) for file in files])
        texts = [text for (text,) in frames.project("protocols::varchar").distinct().fetchall()]
        layers = [by_layer(text) for text in texts]
        table = pa.table({"protocols": pa.array(texts, pa.utf8())} | columns_of(layers))
        self._database.from_arrow(table).create("tokens")

    def _find_errata(self) -> None:
        """Create the table `errata`: the first matching erratum of tshark for each frame and value of `excuses`.

        An erratum about headers after the MPLS stack requires that both digests agree on every header before it.
        `outer_vlans_agree` and `outer_labels_agree` compare the VLAN ids before the stack, and its labels.
        """
        self._database.execute(
            "create table errata "
            "(frame ubigint, excuses varchar, erratum varchar, outer_vlans_agree boolean, outer_labels_agree boolean, "
            "primary key (frame, excuses))"
        )
        for erratum in load_errata():
            pairs = self._database.table("pairs").filter(EXCUSED_IF[erratum["excuses"]]).filter(erratum["when"])
            ids = f"frame, {OUTER_VLANS_AGREE} as outer_vlans_agree, {OUTER_LABELS_AGREE} as outer_labels_agree"
            rows = pairs.project(ids).select(
                duckdb.ColumnExpression("frame"),
                duckdb.ConstantExpression(erratum["excuses"]),
                duckdb.ConstantExpression(erratum["name"]),
                duckdb.ColumnExpression("outer_vlans_agree"),
                duckdb.ColumnExpression("outer_labels_agree"),
            )
            self._database.register("matches", rows)
            self._database.execute("insert or ignore into errata select * from matches")

    def add_to(self, result: Result) -> None:
        """Add the counts of this file to ``result``."""
        # count_if returns null if there are no rows, and a capture may have no frames
        frames, native = self._database.execute(
            "select count(*), count(*) filter (l4_by = 'native') from ours"
        ).fetchone()
        result.frames += frames
        result.native += native
        counts = self._database.execute(
            "select layer, count(erratum), count(*) filter (erratum is null) from differences group by layer"
        ).fetchall()
        different = {layer: (errata, differ) for layer, errata, differ in counts}
        for layer in LAYERS:
            explained, differ = different.get(layer, (0, 0))
            tally = result.tally(layer)
            tally.errata += explained
            tally.differ += differ
            tally.agree += self._compared(layer) - explained - differ
        result.faults += self._faults()
        result.disagreements = self._disagreements()
        for layer in UNCOMPARED:
            uncompared = f"ours inner join theirs using (frame) where not ({self._compared_if(layer)})"
            self._add_examples(result.partly_compared.setdefault(layer, FrameExamples()), uncompared)
        for (name,) in self._database.execute("select distinct erratum from errata").fetchall():
            examples = result.errata.setdefault(name, FrameExamples())
            self._add_examples(examples, "errata where erratum = $name", {"name": name})

    def _add_examples(self, examples: FrameExamples, rows: str, bound: dict | None = None) -> None:
        """Add the frames of ``rows``, which is a FROM clause with parameters ``bound``, to ``examples``."""
        examples.frames += self._count(f"select count(*) from {rows}", bound)
        query = f"select frame from {rows} order by frame limit {self._first:d}"
        examples.first += [f"{self._file}:{frame}" for (frame,) in self._database.execute(query, bound).fetchall()]

    def _compared_if(self, layer: str) -> str:
        """Return the SQL condition under which a layer of a frame in both digests is compared."""
        if layer in ABOVE:
            return "ours.app_by is not null"
        if layer in TAGS:
            return f"ours.{layer} is not null"
        if layer == "time":  # without a plausible timestamp on either side there is nothing to compare
            return "ours.ts_ns is not null or coalesce(theirs.ts_ns >= 0, false)"
        return "true"

    def _compared(self, layer: str) -> int:
        """Return the number of frames on which a layer was compared."""
        if layer == "frames":
            return self._count("select count(*) from ours full outer join theirs using (frame)")
        return self._count(
            f"select count(*) from ours inner join theirs using (frame) where {self._compared_if(layer)}"
        )

    def _faults(self) -> int:
        """Return the number of frames with a fault.

        A fault is a disagreement without erratum, on a layer of ALWAYS_FAULTS, or up to layer 4 if the core decided the
        frame.
        """
        return self._count(
            "select count(distinct frame) from differences "
            "where erratum is null "
            "and (list_contains($always, layer) or (native and not list_contains($above, layer)))",
            {"always": list(ALWAYS_FAULTS), "above": list(ABOVE)},
        )

    def _count(self, sql: str, parameters: dict | None = None) -> int:
        return self._database.execute(sql, parameters).fetchone()[0]

    def _disagreements(self) -> dict[DisagreementKind, FrameExamples]:
        """Return every kind of disagreement without erratum, with its first frames and both values."""
        examples_of: dict[DisagreementKind, FrameExamples] = {}
        query, parameters = queries.bound("verify", "disagreements", {"first": self._first})
        rows = self._database.execute(query, parameters).fetchall()
        for layer, kind_ours, kind_theirs, rank, frames, frame, ours, theirs in rows:
            examples = examples_of.setdefault(DisagreementKind(layer, kind_ours, kind_theirs), FrameExamples(frames))
            if rank <= self._first:
                examples.first.append(f"{self._file}: frame {frame}, {layer}: ours {ours!r}, tshark {theirs!r}")
        return examples_of


def load_errata() -> list[dict]:
    """Return the known errors of tshark from schemas/tshark_errata.yaml: name, clause, about, excuses, when."""
    return yaml.safe_load((schemas.root() / "tshark_errata.yaml").read_text(encoding="utf-8"))


@functools.cache
def token_layers() -> dict[str, str]:
    """Return the layer of every token that schemas/protocols.tsv assigns to the link, network or transport layer."""
    with (schemas.root() / "protocols.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["token"]: LAYER_OF[row["layer"]] for row in rows if row["layer"] in LAYER_OF}


def by_layer(protocols: str) -> dict[str, str]:
    """Return the tokens of each layer in order; `above` contains the tokens that belong to no lower layer."""
    layers: dict[str, list[str]] = {"link": [], "network": [], "transport": [], "above": []}
    for token in filter(None, protocols.split(":")):
        layers[token_layers().get(token, "above")].append(token)
    return {layer: ":".join(tokens) for layer, tokens in layers.items()}


def columns_of(rows: list[dict[str, str]]) -> dict[str, pa.Array]:
    """Return dictionaries as Arrow columns; the list may be empty."""
    names = ("link", "network", "transport", "above")
    return {name: pa.array([row[name] for row in rows], pa.utf8()) for name in names}
