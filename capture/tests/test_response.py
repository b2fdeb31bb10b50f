"""The study of rate changes: its capture, and its file if a program is missing."""

import argparse
import functools
import json
from itertools import pairwise

from acapella_testing.frames import pcap_files
from acapella_testing.requirements import required

from acapella_capture import response
from acapella_capture.testbeds.local import sandbox


def measured(output, step_s):
    """Run the command and return the content of the file that it writes."""
    assert response.run(argparse.Namespace(output=output, step_s=step_s)) == 0
    return json.loads(output.read_text())


def test_two_flows_are_captured_while_their_rates_change(tmp_path):
    for program, package in response.PROGRAMS.items():
        required(functools.partial(sandbox.require, program, package))
    required(sandbox.unshare_argv)
    reported = measured(tmp_path / "response.json", 0.2)
    assert [flow["dst_port"] for flow in reported["flows"]] == list(response.PORTS)
    assert [step["rates_bps"] for step in reported["steps"][:-1]] == [[a * 10**6, b * 10**6] for a, b in response.STEPS]
    assert reported["background"] == {
        **{"background_tcp_streams": 4, "background_udp_streams": 1},
        **{"background_stream_bps": 4_000_000, "background_limit_bps": 40_000_000},
    }
    stamps = [step["at_ns"] for step in reported["steps"]]
    assert stamps == sorted(stamps)
    assert reported["steps"][-1]["rates_bps"] is None
    capture = tmp_path / "response.pcap"
    assert capture.stat().st_size > 10_000
    assert capture.stat().st_mode & 0o777 == 0o600
    gaps = sorted(gaps_of(capture, response.PORTS[0]))
    assert gaps[len(gaps) // 2] > 50_000, (
        "a frame at 60 Mbit/s takes 200 us: less is a burst that the queue did not pace"
    )


def gaps_of(capture, port):
    """Return the times between full frames to a TCP port, ns."""
    stamps = [ns for ns, wire, frame in pcap_files.records(capture.read_bytes())
              if wire > 1500 and frame[23] == 6 and int.from_bytes(frame[36:38]) == port]  # fmt: skip
    return [after - before for before, after in pairwise(stamps)]


def test_missing_program_is_recorded_and_the_capture_is_empty(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(response, "PROGRAMS", {"acapella-no-such-program": "nothing"})
    reported = measured(tmp_path / "response.json", 1)
    assert "acapella-no-such-program is missing" in reported["skipped"] and reported["steps"] == []
    assert (tmp_path / "response.pcap").read_bytes() == response.EMPTY
    assert "measure response: skipped: " in capsys.readouterr().out
