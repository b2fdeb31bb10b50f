"""Tests the reader of iperf3's JSON: real files of 3.12 (iperf3/), constructed ones of other versions, and faults."""

import json
import os
from pathlib import Path

import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.new_files import write_file

from acapella.transfer import documents, iperf3

REAL = Path(__file__).with_name("iperf3")


def parse_real(name: str) -> iperf3.Test:
    """Return the only test of a real file."""
    read = documents.read(REAL / f"3.12-{name}.json")
    assert read.faults == []
    ((place, document),) = read.found
    assert place == 1
    return iperf3.parse(document)


def write(tmp_path, content: bytes | str) -> documents.Documents:
    """Write a file and return what is read from it."""
    return documents.read(write_file(tmp_path / "file.json", content))


def test_values_of_one_stream_are_read_from_a_real_file():
    test = parse_real("one")
    assert (test.version, test.algorithm, test.requested_bytes, test.mss, test.omit_ns) == (
        "3.12",
        "bbr",
        8388608,
        1448,
        0,
    )
    (stream,) = test.streams
    assert (stream.local_port, stream.remote_port, stream.reverse) == (54010, 5201, False)
    assert (stream.sent_bytes, stream.sender_ns, stream.retransmits) == (8388608, 1_554_007_000, 9001)
    # In this file, `seconds` of the receiver is that of the sender; `end` of the receiver is correct.
    assert (stream.received_bytes, stream.receiver_ns) == (7367424, 1_572_835_000)
    assert (stream.rtt_min_ns, stream.rtt_mean_ns, stream.rtt_max_ns) == (2_454_000, 2_876_000, 3_298_000)
    assert [(i.start_ns, i.end_ns, i.bytes, i.retransmits, i.rtt_ns) for i in test.intervals] == [
        (0, 1_000_190_000, 5524120, 8604, 2_454_000),
        (1_000_190_000, 1_554_007_000, 2864488, 397, 3_298_000),
    ]


def test_parallel_streams_are_read_from_a_real_file():
    test = parse_real("parallel")
    raw = json.loads((REAL / "3.12-parallel.json").read_text())
    assert len(test.streams) == 3
    assert sum(stream.sent_bytes for stream in test.streams) == raw["end"]["sum_sent"]["bytes"]
    assert sum(stream.received_bytes for stream in test.streams) == raw["end"]["sum_received"]["bytes"]
    assert {i.stream for i in test.intervals} == {0, 1, 2}
    assert [stream.local_port for stream in test.streams] == [each["local_port"] for each in raw["start"]["connected"]]


def test_reverse_test_with_omitted_seconds_is_read_from_a_real_file():
    test = parse_real("reverse-omit")
    (stream,) = test.streams
    assert stream.reverse
    assert test.omit_ns == 10**9
    assert (stream.rtt_mean_ns, stream.cwnd_max_bytes) == (None, None), "iperf3 writes 0: the client does not know"
    assert [i.omitted for i in test.intervals] == [True, True, False, False, False, False]
    assert stream.receiver_ns == 1_999_595_000, "without the omitted second"


def test_both_directions_are_read_from_a_real_file():
    test = parse_real("bidir")
    assert [stream.reverse for stream in test.streams] == [False, True]
    assert [stream.sent_bytes for stream in test.streams] == [5179496, 218497024]


def test_real_file_of_failed_test_is_rejected_with_its_error():
    ((_, document),) = documents.read(REAL / "3.12-error.json").found
    with pytest.raises(
        iperf3.Rejected, match="iperf3 reports an error: unable to connect to server: Connection timed out"
    ):
        iperf3.parse(document)


@pytest.mark.parametrize("version", ["3.5", "3.7", "3.12", "3.17"])
def test_constructed_versions_give_the_same_values(version):
    """3.5: no key `sender`; 3.12 and earlier: `seconds` of a receiver is the sender's (generated_transfers)."""
    sent = made.Sent(sent=10_000_000, received=9_000_000, seconds=2.0, receiver_seconds=2.25, retransmits=7)
    test = iperf3.parse(made.document(sent, version=version))
    (stream,) = test.streams
    assert (stream.sent_bytes, stream.received_bytes, stream.retransmits) == (10_000_000, 9_000_000, 7)
    assert (stream.sender_ns, stream.receiver_ns) == (2 * 10**9, 2_250_000_000)
    assert len(test.intervals) == 2


def test_values_missing_in_version_3_0_are_unknown():
    document = made.document(made.Sent(received=None), version="3.0")
    for key in ("retransmits", "min_rtt", "mean_rtt", "max_rtt", "max_snd_cwnd", "start"):
        del document["end"]["streams"][0]["sender"][key]
    del document["end"]["sender_tcp_congestion"]
    test = iperf3.parse(document)
    (stream,) = test.streams
    assert (test.algorithm, stream.received_bytes, stream.receiver_ns, stream.retransmits) == (None, None, None, None)
    assert stream.sender_ns == 2 * 10**9, "from `seconds`"


def test_constructed_3_17_events_are_joined(tmp_path):
    original = made.document(version="3.17")
    intervals = [("interval", each) for each in original["intervals"]]
    events = [("start", original["start"]), *intervals, ("end", original["end"])]
    lines = [{"event": event, "data": data} for event, data in events]
    read = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines * 2))
    assert read.faults == []
    assert [iperf3.parse(document) for _, document in read.found] == [iperf3.parse(original)] * 2


def test_several_documents_in_one_file_are_read(tmp_path):
    one, other = made.document(algorithm="bbr"), made.document(algorithm="cubic")
    text = json.dumps(one, indent="\t") + "\n" + json.dumps(other) + json.dumps(one)
    read = write(tmp_path, f"\ufeff{text}\n")
    assert read.faults == []
    assert [iperf3.parse(document).algorithm for _, document in read.found] == ["bbr", "cubic", "bbr"]


@pytest.mark.parametrize("end", [1, 100, 0.5, -1])
def test_truncated_document_is_a_fault_and_the_documents_before_it_are_read(tmp_path, end):
    text = json.dumps(made.document(), indent="\t")
    cut = text[: int(end * len(text)) if isinstance(end, float) else end]
    assert write(tmp_path, cut).faults == [(1, "truncated")]
    read = write(tmp_path, f"{text}\n{cut}")
    assert [place for place, _ in read.found] == [1]
    assert read.faults == [(2, "truncated")]


def test_document_after_a_truncated_one_is_read(tmp_path):
    text = json.dumps(made.document(), indent="\t")
    read = write(tmp_path, f"{text[:300]}\n{text}\n")
    assert [place for place, _ in read.found] == [2]
    assert len(read.faults) == 1


def test_text_around_documents_is_ignored(tmp_path):
    read = write(tmp_path, f"warning: no route\n{json.dumps(made.document())}\niperf3: done\n")
    assert (len(read.found), read.faults) == (1, [])


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (b"", [(0, "empty")]),
        (b"no JSON at all", [(0, "contains no JSON document")]),
        (b"[1, 2]", [(0, "contains no JSON document")]),
        (b'{"a": NaN}', [(1, "not JSON: NaN is not a JSON number")]),
        (b'{"a": 1,, "b": 2}', [(1, "not JSON: expecting property name enclosed in double quotes (character 8)")]),
        (b'{"a":' * 100_000, [(1, "nested too deeply")]),
        (b'{"a": ' + b"[" * 100_000, [(1, "nested too deeply")]),
        (b'{"a": ' + b"9" * 100_000 + b"}", [(1, "not JSON: an integer with thousands of digits")]),
    ],
)
def test_hostile_content_is_a_fault(tmp_path, content, faults):
    read = write(tmp_path, content)
    assert (read.found, read.faults[:1]) == ([], faults)


def test_many_faults_end_the_reading_of_a_file(tmp_path):
    read = write(tmp_path, "{x\n" * 100_000)
    assert len(read.faults) == documents.MAX_FAULTS + 1
    assert read.faults[-1][1] == "the rest of the file is not read: too many documents or faults"


def test_file_larger_than_the_limit_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 20)
    assert write(tmp_path, b" " * ((1 << 20) + 1)).faults == [(0, "larger than 1 MiB")]


def test_fifo_directory_and_missing_file_are_faults(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert documents.read(tmp_path / "fifo").faults == [(0, "not a regular file")]
    assert documents.read(tmp_path).faults[0][1] in ("not a regular file", "cannot read: Is a directory")
    assert documents.read(tmp_path / "none").faults == [(0, "cannot read: No such file or directory")]


def test_invalid_utf8_is_replaced_and_reported_and_utf16_is_read(tmp_path):
    text = json.dumps(made.document() | {"title": "\N{LATIN SMALL LETTER E WITH ACUTE}"}, ensure_ascii=False)
    latin = write(tmp_path, text.encode("latin-1"))
    assert (len(latin.found), latin.faults) == (1, [(0, "not UTF-8: invalid bytes were replaced")])
    powershell = write(tmp_path, b"\xff\xfe" + text.encode("utf-16-le"))
    assert (len(powershell.found), powershell.faults) == (1, [])


def rejection_reason(document: dict) -> str:
    """Return why a document is rejected."""
    with pytest.raises(iperf3.Rejected) as caught:
        iperf3.parse(document)
    return str(caught.value)


def test_incomplete_and_foreign_documents_are_rejected_with_the_missing_key():
    document = made.document()
    assert rejection_reason({"hello": 1}) == "start is missing"
    assert rejection_reason({"start": {}, "end": {}}) == "no results at the end of the test (end.streams is missing)"
    assert rejection_reason(document | {"end": []}) == "end is not an object"
    assert rejection_reason(document | {"end": {"streams": []}}) == "0 streams: expected 1 to 1024"
    assert rejection_reason(document | {"end": {"streams": [{}]}}) == "end.streams[0]: no bytes of sender or receiver"
    assert rejection_reason(document | {"end": {"streams": "x"}}) == "end.streams is not a list of objects"
    udp = document | {"start": document["start"] | {"test_start": {"protocol": "UDP"}}}
    assert rejection_reason(udp) == "protocol UDP: only TCP is supported"
    assert rejection_reason({"error": "interrupt - \ud800\n the client has terminated"}).startswith(
        "iperf3 reports an error: interrupt - "
    )


@pytest.mark.parametrize("value", [-1, 2**63, 10**30, 1e300, 1.5, True, "7", None, [], {}])
def test_values_that_are_not_counts_are_unknown(value):
    assert iperf3.whole(value) is None
    document = made.document()
    document["end"]["streams"][0]["sender"]["retransmits"] = value
    assert iperf3.parse(document).streams[0].retransmits is None


@pytest.mark.parametrize("value", [-1, 1e300, float("inf"), float("nan"), True, "7", None])
def test_values_that_are_not_times_are_unknown(value):
    assert iperf3.nanoseconds(value) is None
