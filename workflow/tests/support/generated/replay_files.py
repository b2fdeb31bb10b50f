"""Write the captures, the recording and the departures of simulated replays."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, packet
from acapella_testing.oracles.replay_simulation import Replay

from acapella.kappa.departures import Departures
from acapella_core.arrow_tables import arrow_schema
from acapella_core.files import sha256_of

SCHEMA = arrow_schema("departures")
GAP_NS = 1_237
COUNT = 200
TIMES = [START_NS + GAP_NS * n for n in range(COUNT)]


def columns(count: int = COUNT, **changed) -> dict:
    """Return departures at the requested times, with some columns changed."""
    requested = START_NS + GAP_NS * np.arange(count)
    return {
        **{"loop": np.zeros(count, np.int32), "port": np.zeros(count, np.int16), "packet": np.arange(count)},
        **{"requested_ns": requested, "departed_ns": requested, "outcome": ["sent"] * count},
        **{"resolved": np.ones(count, bool), "burst_first": np.ones(count, bool)},
        **{"hardware": np.zeros(count, bool), "retries": np.zeros(count, np.int32), "queue": np.zeros(count, np.int16)},
        **changed,
    }


def write_recording(path: Path, replay: Replay) -> Path:
    """Write the recording: packet n of the replay is frame n."""
    return write_pcap(path, [(int(ns), packet(n)) for n, ns in enumerate(replay.requested_ns)])


def write_arrivals(path: Path, replay: Replay) -> Path:
    """Write the capture of the receiver."""
    rows = zip(replay.arrived_ns.tolist(), replay.number.tolist(), strict=True)
    return write_pcap(path, [(ns, packet(n)) for ns, n in rows])


def columns_of(replay: Replay) -> dict:
    """Return the columns of a file of departures of one loop."""
    return columns(
        len(replay.requested_ns),
        requested_ns=replay.requested_ns,
        departed_ns=pa.array(replay.departed_ns, mask=~replay.sent),
        outcome=np.where(replay.sent, "sent", "ring_full"),
        **{name: getattr(replay, name) for name in ("resolved", "burst_first", "queue")},
    )


def write_departures(path: Path, recording: Path, columns: dict, **metadata: str) -> Path:
    """Write a file of departures."""
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in SCHEMA]
    stated = {
        **{"recording_sha256": sha256_of(recording), "speed": "1000000", "pacing": "single"},
        **{"clock_offset_ns": "0", "clock_error_ns": "0", "clock_source": "simulated", "receiver_clock_error_ns": "0"},
        **metadata,
    }
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA.with_metadata(stated)), path)
    return path


def write_replays(directory: Path, a: Replay, b: Replay, **metadata: str) -> list[str]:
    """Write both trials and return the arguments of `acapella kappa`."""
    recording, trials, sent = write_recording(directory / "recording.pcap", a), [], []
    for name, replay in (("a", a), ("b", b)):
        trials.append(write_arrivals(directory / f"{name}.pcap", replay))
        path = directory / f"{name}.departures.parquet"
        sent.append(write_departures(path, recording, columns_of(replay), **metadata))
    return [*map(str, trials), "--recording", str(recording), "--departures", *map(str, sent)]


def rows_of(replay: Replay) -> Departures:
    """Return the departures of a recording with SHA-256 "r" without writing a file."""
    columns = columns_of(replay)
    names = ("loop", "port", "packet", "requested_ns", "resolved", "burst_first", "queue")
    return Departures(
        **{"path": "departures", "recording_sha256": "r", "speed": "1000000", "outcomes": {}},
        **{"clock_error_ns": 0, "clock_offset_ns": 0, "receiver_error_ns": 0},
        **{name: columns[name] for name in names},
        **{"departed_ns": np.where(replay.sent, replay.departed_ns, 0), "sent": replay.sent, "measured": replay.sent},
    )
