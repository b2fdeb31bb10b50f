"""The sample sheet of testbed `files`: its features, and a one-line error for every mistake."""

import json
import os
import struct
import zlib
from pathlib import Path
from unittest.mock import Mock

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.runs.in_process import parsed

from acapella_capture import collect
from acapella_capture import manifest as manifests
from acapella_capture.testbeds import files
from acapella_capture.testbeds.stored_captures import StoredCapture
from acapella_core.errors import UserError

# pcap, microseconds, snap length 96, Ethernet; two frames of 60 bytes at 1.000100 s and 2.000000 s
FRAMES = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1) + b"".join(
    struct.pack("<IIII", *stamp, 60, 60) + bytes(60) for stamp in ((1, 100), (2, 0))
)
HEADER = "sample\tsite\tport\tfile\tstart\n"
FIELDS = {"sample": "", "site": "S", "port": "p", "file": "a.pcap", "start": ""}


@pytest.fixture
def directory(tmp_path):
    """Return a directory with a small pcap, and a file that is not a capture."""
    (tmp_path / "a.pcap").write_bytes(FRAMES)
    (tmp_path / "b.pcapng.gz").write_bytes(b"two")
    return tmp_path


def sheet(directory, text, header=HEADER):
    return write_file(directory / "samples.tsv", header + text)


def described(directory, text, header=HEADER, **options) -> list[dict]:
    """Return the manifests of the samples of a sheet. ``options``: of files.describe."""
    return list(files.describe(sheet(directory, text, header), directory / "campaign", **options))


def complaint(directory, text, header=HEADER) -> str:
    """Return the error about a sheet in one line, without its path."""
    with pytest.raises(UserError) as raised:
        described(directory, text, header)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"{directory}/samples.tsv")
    assert not (directory / "campaign").exists()  # nothing is written if there is an error
    return str(raised.value).removeprefix(f"{directory}/samples.tsv").strip()


def test_each_capture_gets_a_manifest_and_a_link(directory):
    found = described(directory, "first\tRUTG\tport 1\ta.pcap\t2024-05-01T12:00:00.5Z\n\tRUTG\tport2\tb.pcapng.gz\n")
    assert [manifest["sample"] for manifest in found] == ["first", "b"]
    assert found[0]["requested"] == {"start_ns": 1714564800_500000000, "end_ns": None}
    assert found[0]["port"] == "port 1"
    assert found[1]["file"] == "b.pcapng.gz"
    assert found[1]["notes"][0].startswith("not read to the end: ")
    assert (found[0]["frames_captured"], found[0]["snaplen"], found[0]["notes"]) == (2, 96, [])
    assert found[0]["clock_resolution_ns"] == 100_000
    raw = directory / "campaign" / "raw"
    assert (raw / "first.pcap").resolve() == directory / "a.pcap"
    assert (raw / "b.pcapng.gz").read_bytes() == b"two"
    assert manifests.read(raw / "first.json") == found[0]


def test_repeated_description_yields_the_same_bytes(directory):
    described(directory, "\tRUTG\tp1\t*.pcap\t\n")
    before = (directory / "campaign" / "raw" / "a.json").read_bytes()
    described(directory, "\tRUTG\tp1\t*.pcap\t\n")
    assert (directory / "campaign" / "raw" / "a.json").read_bytes() == before


def test_glob_yields_a_sample_per_file_in_name_order(directory):
    rows = files.read_sheet(sheet(directory, "\tRUTG\tp1\t*.pcap*\t\n"))
    assert [(row.sample, row.line) for row in rows] == [("a", 2), ("b", 2)]


def test_relative_paths_start_at_the_sheets_directory(directory, monkeypatch):
    monkeypatch.chdir("/")
    assert files.read_sheet(sheet(directory, "\tS\tp\ta.pcap\t\n"))[0].file == directory / "a.pcap"


def test_files_with_the_same_name_get_directory_names(directory):
    for name in ("x/y", "z/y"):
        write_file(directory / name / "a.pcap", name.encode())
    assert [row.sample for row in files.read_sheet(sheet(directory, "\tS\tp\t?/y/a.pcap\t\n"))] == ["x-y-a", "z-y-a"]


def test_sample_name_has_only_characters_valid_in_file_names(directory):
    (directory / "Test 1 (ü).cap").write_bytes(b"")
    rows = files.read_sheet(sheet(directory, "\tS\tp\tTest 1 (ü).cap\t\n"))
    assert rows[0].sample == "Test_1_"
    assert rows[0].link == "Test_1_.cap"


@pytest.mark.parametrize(
    ("text", "start_ns"),
    [
        ("1714564800123456789", 1714564800123456789),
        ("2024-05-01T12:00:00Z", 1714564800_000000000),
        ("2024-05-01 12:00:00.123456789", 1714564800_123456789),
        ("2024-05-01T14:00:00+02:00", 1714564800_000000000),
        ("", None),
        ("1970-01-01T00:00:00Z", 0),
        ("2106-02-07T06:28:15.999999998Z", 2**32 * 10**9 - 2),
    ],
)
def test_start_is_iso_8601_or_nanoseconds_within_the_years_1970_to_2106(directory, text, start_ns):
    assert files.read_sheet(sheet(directory, f"\tS\tp\ta.pcap\t{text}\n"))[0].start_ns == start_ns


def test_missing_file_is_an_error(directory):
    assert complaint(directory, "\tS\tp\tnone.pcap\t\n") == f"line 2: {directory}/none.pcap: no such file"


def test_directory_instead_of_a_file_is_an_error(directory):
    (directory / "d").mkdir()
    assert complaint(directory, "\tS\tp\td\t\n") == f"line 2: {directory}/d: is not a file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_an_error(directory):
    (directory / "a.pcap").chmod(0)
    assert complaint(directory, "\tS\tp\ta.pcap\t\n") == f"line 2: {directory}/a.pcap: cannot read: Permission denied"


def test_unreadable_file_error_contains_the_kernel_error(directory, monkeypatch):
    monkeypatch.setattr("pathlib.Path.open", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert files.unreadable(directory / "a.pcap") == "cannot read: Permission denied"


def test_glob_without_a_match_is_an_error(directory):
    assert complaint(directory, "\tS\tp\t*.cap\t\n") == f"line 2: {directory}/*.cap: {files.NO_MATCH}"


def test_one_sample_name_for_several_files_is_an_error(directory):
    assert complaint(directory, "x\tS\tp\t*.pcap*\t\n").startswith("line 2: 2 files match *.pcap*, one sample name 'x'")


def test_duplicate_sample_name_is_an_error(directory):
    rows = "x\tS\tp\ta.pcap\t\nx\tS\tp\tb.pcapng.gz\t\n"
    assert complaint(directory, rows) == "line 3: sample 'x' is already in line 2"


@pytest.mark.parametrize("rows", ["\tS\tp\ta.pcap*\t\n", "\tS\tp\ta.pcap\t\n\tS\tp\ta.pcapn*\t\n"])
def test_error_names_both_files_with_the_same_sample_name(directory, rows):
    (directory / "a.pcapng").write_bytes(FRAMES)
    same = f"{directory}/a.pcap and {directory}/a.pcapng would have the same sample name; set the column sample"
    assert same in complaint(directory, rows)


def test_files_that_differ_in_invalid_characters_get_unique_names(directory):
    for name in ("東京 1.pcapng", "大阪 1.pcapng", "東京.pcap", "x/東京/b.pcap", "x/大阪/b.pcap"):
        write_file(directory / name, FRAMES)
    lines = "\tS\tp\t東京.pcap\t\n\tS\tp\t*1.pcapng\t\n\tS\tp\tx/*/b.pcap\t\n"
    checksums = {name: f"{zlib.crc32(name.encode()):08x}" for name in ("東京 1", "大阪 1", "東京-b", "大阪-b")}
    assert {str(row.file.relative_to(directory)): row.sample for row in files.read_sheet(sheet(directory, lines))} == {
        "東京.pcap": "capture",
        "東京 1.pcapng": f"1-{checksums['東京 1']}",
        "大阪 1.pcapng": f"1-{checksums['大阪 1']}",
        "x/東京/b.pcap": f"b-{checksums['東京-b']}",
        "x/大阪/b.pcap": f"b-{checksums['大阪-b']}",
    }


def test_error_for_an_overlong_name_names_the_file(directory):
    for part in "mn":
        write_file(directory / (part * 200) / ("k" * 200) / "a.pcap", FRAMES)
    message = complaint(directory, "\tS\tp\t*/*/a.pcap\t\n")
    assert "/a.pcap: only letters, digits" in message and f" of {directory}/mmm" in message


def test_file_listed_twice_is_an_error(directory):
    (directory / "c.pcap").symlink_to("a.pcap")
    rows = "x\tS\tp\ta.pcap\t\ny\tS\tp\tc.pcap\t\n"
    assert complaint(directory, rows) == f"line 3: {directory}/c.pcap is already in line 2"


def test_sample_name_invalid_as_a_file_name_is_an_error(directory):
    assert complaint(directory, "../x\tS\tp\ta.pcap\t\n").startswith("line 2: sample '../x': only letters, digits")


@pytest.mark.parametrize("key", ["site", "port", "file"])
def test_empty_required_field_is_an_error(directory, key):
    assert complaint(directory, "\t".join((FIELDS | {key: ""}).values()) + "\n") == f"line 2: no {key}"


@pytest.mark.parametrize("key", ["site", "port"])
def test_reserved_site_or_port_name_is_an_error(directory, key):
    expected = f"line 2: {key} 'all': reserved for the whole campaign; choose another name"
    assert complaint(directory, "\t".join((FIELDS | {key: "all"}).values()) + "\n") == expected


def test_control_characters_in_a_restriction_are_rejected(directory):
    with pytest.raises(UserError, match=r"line 2: restriction .* has a control character"):
        files.read_sheet(sheet(directory, "S\tp\ta.pcap\tfilter tcp\x1b[2J\n", WITH_RESTRICTION))


@pytest.mark.parametrize("row", ["a\tR\x1b[31m\tp\ta.pcap\t", "a\tR\tp\u202e\ta.pcap\t", "a\tR\tp\ta\x07.pcap\t"])
def test_control_characters_are_rejected_and_escaped_in_the_error(directory, row):
    found = complaint(directory, row + "\n")
    assert found.startswith("line 2: ") and "has a control character" in found and found.isprintable()


def test_path_with_braces_only_fails_that_file(directory):
    (directory / "{b}.pcap").write_bytes(FRAMES)
    rows = "a\tR\tp\ta.pcap\t\nb\tR\tp\t{b}.pcap\t\n"
    assert [manifest["sample"] for manifest in described(directory, rows, sample="a")] == ["a"]
    with pytest.raises(UserError, match=r"\{b\}.pcap: braces in a path are wildcards of Snakemake"):
        described(directory, rows, sample="b")


@pytest.mark.parametrize("key", ["site", "port", "campaign"])
def test_manifest_with_control_characters_is_rejected(directory, key):
    (manifest,) = described(directory, "a\tR\tp\ta.pcap\t\n")
    with pytest.raises(UserError, match=key):
        manifests.check(manifest | {key: "a\x1b[31m"}, where="here")


def test_links_survive_a_move_of_captures_and_campaign_together(directory, tmp_path_factory):
    list(files.describe(sheet(directory, "\tS\tp\ta.pcap\t\n"), directory / "results" / "c"))
    moved = tmp_path_factory.mktemp("elsewhere") / "moved"
    directory.rename(moved)
    link = moved / "results" / "c" / "raw" / "a.pcap"
    assert link.is_symlink() and link.read_bytes() == FRAMES


@pytest.mark.parametrize(
    ("place", "file", "found"),
    [
        ("config", "../a.pcap", "a.pcap"),
        ("config", "../config/.././*.pcapng.gz", "b.pcapng.gz"),
        ("config", "../missing/a.pcap", "missing/a.pcap"),
        ("link", "../a.pcap", "link/../a.pcap"),  # not in the directory of the link
        (".", "../a.pcap", "../a.pcap"),
    ],
)
def test_path_of_a_capture_contains_no_parent_directory_unless_it_is_needed(directory, monkeypatch, place, file, found):
    monkeypatch.chdir(directory)
    (directory / "other" / "config").mkdir(parents=True)
    (directory / "config").mkdir()
    (directory / "link").symlink_to("other/config")
    (row,) = files.read_sheet(sheet(Path(place), f"\tS\tp\t{file}\n"))
    assert str(row.file) == found


WITH_RESTRICTION = "site\tport\tfile\trestriction\n"


@pytest.mark.parametrize(
    ("text", "restrictions"),
    [
        ("", None),
        ("trial", [("trial", None)]),
        ("filter", [("filter", None)]),
        ("filter tcp  port 443 ; sampling 100", [("filter", "tcp port 443"), ("sampling", "100")]),
        ("p4 preprocess.spec; trial;", [("p4", "preprocess.spec"), ("trial", None)]),
        ("sampling 1", None),
    ],
)
def test_manifest_contains_restrictions_of_the_sheet(directory, text, restrictions):
    found = described(directory, f"S\tp\ta.pcap\t{text}\n", WITH_RESTRICTION)[0].get("restrictions")
    assert (found and [(each["reason"], each["detail"]) for each in found]) == restrictions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("replay", "line 2: restriction 'replay' is not one of trial, filter, p4, sampling"),
        (
            "trail",
            "line 2: restriction 'trail' is not one of trial, filter, p4, sampling; did you mean trial?",
        ),
        ("trial; trial", "line 2: restriction 'trial' occurs twice"),
        ("trial monday", "line 2: restriction 'trial monday': trial takes no value"),
        ("sampling 0", "line 2: restriction 'sampling 0': not a sampling rate, such as sampling 100"),
        ("sampling 1/10", "line 2: restriction 'sampling 1/10': not a sampling rate, such as sampling 100"),
    ],
)
def test_invalid_restriction_error_names_the_line(directory, text, expected):
    assert complaint(directory, f"S\tp\ta.pcap\t{text}\n", WITH_RESTRICTION).startswith(expected)


def test_invalid_start_is_an_error(directory):
    expected = "line 2: start 'noon' is neither ISO 8601 nor nanoseconds since 1970"
    assert complaint(directory, "\tS\tp\ta.pcap\tnoon\n") == expected


@pytest.mark.parametrize(
    "start",
    ["2500-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "4294967295999999999", "9223372036854775808", "9" * 20],
)
def test_start_out_of_range_is_an_error(directory, start):
    assert (
        complaint(directory, f"\tS\tp\ta.pcap\t{start}\n")
        == f"line 2: start '{start}' is not within the years 1970 to 2106"
    )


COLUMNS = "required columns, separated by tabs: site, port, file; optional columns: sample, start, restriction"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("site\tfile\n", "no column port"),
        ("site\tport\tfile\tport\n", "a column occurs twice"),
        ("site\tport\tfile\tsamples\n", "unknown column 'samples'; did you mean sample?"),
        ("site\tport\tfile\tcolor\tstrat\n", "unknown column 'strat'; did you mean start?"),
        ("site\tPort\tfile\n", "unknown column 'Port'; did you mean port?"),
        ("site\tfile\tfiles\tcolor\n", "no column port"),
    ],
)
def test_error_in_the_header_names_required_and_optional_columns(directory, header, expected):
    assert complaint(directory, "S\ta.pcap\n", header) == f"line 1: {expected}; {COLUMNS}"


@pytest.mark.parametrize("header", ["site    port    file\n", "site,port,file\n", "sample\tsite port file\n"])
def test_columns_without_tabs_are_an_error(directory, header):
    assert complaint(directory, "S p a.pcap\n", header) == f"line 1: no tabs between the columns; {COLUMNS}"


def test_unknown_column_is_an_error(directory):
    assert complaint(directory, "", "site\tport\tfile\tcolor\n").startswith("line 1: unknown column 'color'")


def test_too_many_fields_are_an_error(directory):
    assert complaint(directory, "\tS\tp\ta.pcap\t\tmore\n") == "line 2: 6 fields, 5 columns"
    assert complaint(directory, "s S p a.pcap\n") == "line 2: no tabs: 1 field, 5 columns"


def test_sheet_without_samples_is_an_error(directory):
    assert complaint(directory, "\n# nothing yet\n").startswith(": no samples")


def test_binary_sheet_is_an_error(directory):
    (directory / "samples.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a sample sheet"):
        files.read_sheet(directory / "samples.tsv")


def test_error_about_a_missing_sheet_names_the_config_key_and_the_working_directory(directory, monkeypatch):
    monkeypatch.chdir(directory)
    with pytest.raises(
        UserError, match=r"cannot read the sample sheet: No such file.*key samples .* starts in "
    ) as found:
        files.read_sheet(Path("samples.tsv"))
    assert str(found.value).endswith(str(directory))


def test_error_names_the_first_problem_and_counts_others(directory):
    rows = "\tS\tp\tnone.pcap\t\n\tS\tp\tgone.pcap\t\n\tS\tp\talso.pcap\t\n"
    assert complaint(directory, rows) == f"line 2: {directory}/none.pcap: no such file (and 2 more)"


def test_broken_sample_fails_alone(directory):
    """As in a workflow, which describes one sample at a time."""
    rows = "good\tS\tp\ta.pcap\t\nbad\tS\tp\tnone.pcap\t\n"
    assert [manifest["sample"] for manifest in described(directory, rows, sample="good")] == ["good"]
    with pytest.raises(UserError, match=r"line 3: .*none.pcap: no such file$"):
        described(directory, rows, sample="bad")


def test_unknown_sample_is_an_error(directory):
    with pytest.raises(UserError, match="no sample 'other'"):
        described(directory, "\tS\tp\ta.pcap\t\n", sample="other")


def test_list_option_writes_the_samples(directory, capsys):
    path = sheet(directory, "\tS\tp\t*.pcap*\t\n")
    config = {"campaign": "c", "testbed": "files", "samples": str(path)}  # JSON is YAML
    file = write_file(directory / "config.json", json.dumps(config))
    arguments = parsed(collect, directory / "campaign", "--config", file)
    assert collect.run(arguments) is None
    text = (directory / "campaign" / "raw" / "samples.tsv").read_text()
    assert text == "sample\tsite\tport\tfile\na\tS\tp\ta.pcap\nb\tS\tp\tb.pcapng.gz\n"
    assert (directory / "campaign" / "raw" / "samples.tsv").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    arguments.list = True
    collect.run(arguments)
    assert capsys.readouterr().out == text
    arguments.output = directory / "list.tsv"
    collect.run(arguments)
    assert capsys.readouterr().out == ""
    assert (arguments.output.read_text(), arguments.output.stat().st_mode & 0o777) == (text, 0o600)


def test_truncated_capture_is_described_with_a_note(directory):
    (directory / "a.pcap").write_bytes(FRAMES[:-1])
    (manifest,) = described(directory, "\tS\tp\ta.pcap\t\n")
    assert manifest["frames_captured"] == 1
    assert manifest["notes"] and manifest["notes"][0].startswith("not read to the end: ")


def test_objects_in_storage_are_samples_named_by_their_keys(directory):
    names = ("s3://bucket/day 1/x.pcap.gz", "s3://bucket/day2/x.pcap.gz", "fs:/share/a@b/x.pcap.gz", "fs:/share/y.pcap")
    rows = "".join(f"\tA\tp1\t{name}\t\n" for name in names)
    found = files.read_sheet(sheet(directory, f"{rows}f\tA\tp3\ta.pcap\t\n"))
    assert [row.query for row in found] == [*names, None]
    assert [(row.sample, row.link) for row in found] == [
        ("day_1-x", "day_1-x.pcap.gz"),
        ("day2-x", "day2-x.pcap.gz"),
        ("a_b-x", "a_b-x.pcap.gz"),
        ("y", "y.pcap"),
        ("f", "f.pcap"),
    ]


def test_object_that_is_also_listed_as_a_file_is_a_duplicate(directory):
    rows = f"a\tA\tp1\ta.pcap\t\nb\tA\tp1\tfs:{directory}/a.pcap\t\n"
    with pytest.raises(UserError, match=rf"line 3: fs:{directory}/a\.pcap is already in line 2"):
        files.read_sheet(sheet(directory, rows))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("gs://bucket/x.pcap", "line 2: gs://: only s3://BUCKET/KEY and fs:PATH are supported; mount other storage, "),
        (
            "s3://bucket/*.pcap",
            "line 2: s3://bucket/*.pcap: not s3://BUCKET/KEY, without // and .. and any of ? # * [ ]",
        ),
        ("s3://bucket", "line 2: s3://bucket: not s3://BUCKET/KEY"),
        ("s3://bucket/", "line 2: s3://bucket/: not s3://BUCKET/KEY"),
        ("s3://bucket/a/../x.pcap", "line 2: s3://bucket/a/../x.pcap: not s3://BUCKET/KEY"),
        ("s3://bucket//x.pcap", "line 2: s3://bucket//x.pcap: not s3://BUCKET/KEY"),
        ("s3://key:secret@bucket/x.pcap", "line 2: s3://...@: credentials do not belong in the sheet"),
        ("s3://bucket/x.pcap", "s is in storage; Snakemake fetches it; run snakemake"),
        ("fs:x.pcap", "line 2: fs:x.pcap: not fs:PATH, an absolute path without // and .. and any of ? * [ ] { }"),
        ("fs://share/x.pcap", "line 2: fs://share/x.pcap: not fs:PATH"),
        ("fs:/share/../x.pcap", "line 2: fs:/share/../x.pcap: not fs:PATH"),
        ("fs:/share/*.pcap", "line 2: fs:/share/*.pcap: not fs:PATH"),
        ("fs:/share/", "line 2: fs:/share/: not fs:PATH"),
    ],
)
def test_errors_in_object_rows_are_one_line(directory, query, message):
    with pytest.raises(UserError) as raised:
        described(directory, f"s\tRUTG\tp1\t{query}\t\n")
    shown = str(raised.value).removeprefix(f"{directory}/samples.tsv ")
    assert (message in shown or shown.startswith("s: s3://")) and "\n" not in shown and "secret" not in shown


def test_fetched_copy_is_verified_and_described(directory):
    rows = "s\tRUTG\tp1\ts3://bucket/x.pcap\t\n"
    copy = StoredCapture(str(directory / "a.pcap"), "e-2", manifests.empty()["sha256"])
    (manifest,) = described(directory, rows, sample="s", stored=copy)
    assert manifest["storage"] == {"query": "s3://bucket/x.pcap", "etag": "e-2"}
    assert (manifest["file"], manifest["frames_captured"]) == ("s.pcap", 2)
    assert not (directory / "campaign" / "raw" / "s.pcap").is_symlink()
    error = r"^s3://bucket/x\.pcap: the fetched copy does not have the SHA-256 of the object"
    with pytest.raises(UserError, match=error):
        described(directory, rows, sample="s", stored=StoredCapture(copy.file, "e-2", "0" * 64))
    stale = rf"^{copy.file}: not a copy of the current s3://bucket/x\.pcap; delete it, and run snakemake again$"
    found = Path(copy.file).stat()
    current = {"bytes": found.st_size, "modified_s": found.st_mtime_ns // 10**9}
    described(directory, rows, sample="s", stored=StoredCapture(copy.file, **current))
    for key, value in current.items():
        with pytest.raises(UserError, match=stale):
            described(directory, rows, sample="s", stored=StoredCapture(copy.file, **current | {key: value + 1}))
