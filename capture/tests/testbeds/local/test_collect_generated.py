"""`acapella collect` with generated traffic: the monitor's counts match the packets that the emulated link passed."""

import json
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing import c_programs
from acapella_testing.capture.callers import AS_ROOT
from acapella_testing.capture.impaired_path import Impairments, schedule
from acapella_testing.capture.interrupted_runs import ends_without_leftovers
from acapella_testing.capture.pcap_records import frames
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_built

from acapella.cli.main import main
from acapella_capture import manifest as manifests
from acapella_core.files import sha256_of

pytestmark = pytest.mark.soak

LOSS_PPM, DUPLICATE_PPM, SEED = 30_000, 50_000, 7
STAMPS = {0x0800: 42, 0x86DD: 74}  # offset of the stamp after Ethernet, IP, and UDP or TCP
MODEL = """
seed: 3
flows:
  - {name: udp, packets: 400, gaps: {poisson: {mean_ns: 500000}}, payload: prbs31,
     headers: [ethernet: {}, ipv4: {src: 10.0.0.1, dst: {increment: 10.1.0.1, count: 9}}, udp: {src: 5000, dst: 5001}],
     sizes: {weighted: {60: 90, 1514: 9, 9000: 1}}}
  - {name: tcp, packets: 200, gaps: {packets_per_s: 1000}, sizes: 200,
     headers: [ethernet: {src: "02:00:00:00:00:07", dst: {increment: "02:00:00:00:00:08", count: 3}},
               ipv6: {src: "fd01::1", dst: "fd01::2"}, tcp: {src: 40000, dst: 443}]}
"""
LINK = {"delay_ms": 3, "loss_percent": LOSS_PPM / 10_000, "duplicate_percent": DUPLICATE_PPM / 10_000, "seed": SEED}
ENVIRONMENTS = [{"name": "direct"}, {"name": "lossy", "link": LINK}]


def config_of(model: Path, **generate) -> str:
    """Return a config as JSON, which is valid YAML."""
    local = {"traffic": [{"kind": "ping"}], "generate": {"model": str(model), "environments": ENVIRONMENTS} | generate}
    return json.dumps({"testbed": "local", "capture": CAPTURE, "collect": ONE_PORT, "local": local})


CAPTURE = {"sample_s": 0.05, "filter": "udp port 1"}
ONE_PORT = {"mode": "sites", "sites": ["site2"], "port_selection": "fixed", "ports": {"site2": ["port1"]}}


@pytest.fixture(scope="module")
def model(open_directory) -> Path:
    path = write_file(open_directory / "model.yaml", MODEL)
    path.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def campaign(caller, open_directory, model) -> Path:
    """Kill a collection while traffic is generated, run it again, and return its campaign."""
    for name in ("acapella-dpdk-generate", "acapella-monitor", "acapella-link"):
        require_built(name)
    c_programs.built_or_skip("acapella-dpdk-generate")
    campaign, config = open_directory / "generated", config_of(model)
    moment = ("run1-site2-port1", "acapella-dpdk-g")
    assert ends_without_leftovers(caller, campaign, config, signal.SIGKILL, moment) != 0
    done = caller.run(campaign, "--config", campaign.with_suffix(".yaml"))
    assert done.returncode == 0, done.stderr
    return campaign


@pytest.fixture(scope="module")
def sent(open_directory, model) -> list[tuple[int, int]]:
    """Return flow and sequence number of each packet of the model, in the order of their departures."""
    assert main(["generate", str(model), "-o", str(open_directory / "sent.pcap")]) == 0
    return stamps(open_directory / "sent.pcap")


def stamps(path: Path) -> list[tuple[int, int]]:
    """Return flow and sequence number of each frame that has a stamp."""
    found = []
    for _, frame in frames(path):
        at = STAMPS[int.from_bytes(frame[12:14])]
        if frame[at : at + 2] == b"\xac\xa9":  # others, such as MLD reports of the router, have no stamp
            found.append((int.from_bytes(frame[at + 2 : at + 6]), int.from_bytes(frame[at + 6 : at + 10])))
    return found


def passed(sent: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the packets that leave the link: without those that it loses, and with those that it duplicates."""
    _, arriving, _ = schedule(Impairments(loss_ppm=LOSS_PPM, duplicate_ppm=DUPLICATE_PPM, seed=SEED), len(sent))
    return [sent[number] for number in arriving]


def rows(campaign: Path, sample: str, table: str) -> list[dict]:
    return pq.read_table(campaign / "generated" / sample / f"{table}.parquet").to_pylist()


@AS_ROOT
def test_monitor_counts_the_packets_in_the_schedule_of_the_link(campaign, sent):
    for sample, arriving in (("direct-1", sent), ("lossy-1", passed(sent))):
        lost, copies = len(sent) - len(set(arriving)), len(arriving) - len(set(arriving))
        assert (lost > 0, copies > 0) == ((sample == "lossy-1"),) * 2
        (port,) = rows(campaign, sample, "monitor_ports")
        flows = rows(campaign, sample, "monitor_flows")
        assert [row["name"] for row in flows] == ["udp", "tcp"] and port["name"] == sample
        for row in flows:
            own = [sequence for flow, sequence in arriving if flow == row["flow"]]
            sequences = [sequence for flow, sequence in sent if flow == row["flow"]]
            unique = len(set(own))
            assert [row[name] for name in ("expected", "packets", "unique", "lost", "duplicates")] == [
                len(sequences), len(own), unique, len(sequences) - unique, len(own) - unique
            ]  # fmt: skip
            assert (row["first_sequence"], row["last_sequence"]) == (min(own), max(own))
            assert (row["reordered"], row["bit_errors"]) == (0, 0)
        assert (port["received"] - port["foreign"], port["lost"], port["duplicates"]) == (len(arriving), lost, copies)
        assert port["invalid"] == port["missed"] == port["dropped_kernel"] == 0


@AS_ROOT
def test_mirrored_port_has_the_packets_in_the_schedule(campaign, sent):
    """The capture of the port is independent of the monitor."""
    assert stamps(campaign / "raw" / "direct-1.pcap") == sent
    assert stamps(campaign / "raw" / "lossy-1.pcap") == passed(sent)
    for sample, source in (("direct-1", "02000000fd01"), ("lossy-1", "02000000fd02")):
        macs = {frame[:12].hex() for _, frame in frames(campaign / "raw" / f"{sample}.pcap")}
        assert f"020000000201{source}" in macs and all(mac.endswith(source) for mac in macs)


@AS_ROOT
@pytest.mark.parametrize(("sample", "delay_ns"), [("direct-1", 0), ("lossy-1", 2_500_000)])
def test_latency_contains_the_delay_of_the_link(campaign, sample, delay_ns):
    assert min(row["latency_min_ns"] for row in rows(campaign, sample, "monitor_flows")) > delay_ns


@AS_ROOT
def test_manifest_describes_the_trial_and_lists_its_files(campaign, sent, model):
    manifest = manifests.read(campaign / "raw" / "lossy-1.json")
    generated = manifest["generated"]
    assert (manifest["environment"], manifest["trial"], manifest["replayed_frames"]) == ("lossy", 1, len(sent))
    assert (generated["model_sha256"], generated["seed"]) == (sha256_of(model), 3)
    arriving = passed(sent)
    unique = len(set(arriving))
    assert generated["link"] == {
        "delay_ns": 3_000_000, "loss_ppm": LOSS_PPM, "reorder_ppm": 0, "duplicate_ppm": DUPLICATE_PPM, "seed": SEED,
        "received": len(sent), "sent": len(arriving), "lost": len(sent) - unique, "reordered": 0,
        "duplicated": len(arriving) - unique, "full": 0, "unsent": 0,
    }  # fmt: skip
    assert {entry["file"]: entry["sha256"] for entry in generated["files"]} == {
        path.name: sha256_of(path) for path in (campaign / "generated" / "lossy-1").iterdir()
    }
    assert manifests.read(campaign / "raw" / "direct-1.json")["generated"]["link"] is None


@AS_ROOT
@pytest.mark.parametrize(
    ("text", "generate", "complaint"),
    [
        ("flows: []", {}, "model.yaml"),
        (MODEL.replace("ethernet: {},", "bytes: '00',", 1), {}, "flow 0 (udp): the outermost header is not Ethernet"),
        (MODEL, {"environments": [{"name": "a", "link": {}, "path": "shared"}]}, "not available on path shared"),
        (
            MODEL,
            {"environments": [{"name": "a"}, {"name": "a", "path": "shared"}]},
            "local.generate.environments[1].name: 'a' occurs",
        ),
    ],
)
def test_unusable_settings_are_rejected(caller, open_directory, text, generate, complaint):
    model = write_file(open_directory / "other_model.yaml", text)
    done = caller.collect(open_directory / "other", config_of(model, **generate))
    assert done.returncode == 2 and complaint in done.stderr
