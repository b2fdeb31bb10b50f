"""Tests acapella sql: it runs in any directory, only reads, supports every format, and opens no unneeded files."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run
from acapella_testing.source_tree import ROOT

from acapella.campaign import process, sql, views
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common import queries
from acapella_core import _native
from acapella_core.errors import UserError

COLUMNS = ", ".join(f"'{n:030d}' as column_{n}" for n in range(20))  # more than fit on a terminal
TABLE_NAMES = {"acaps", "connections", "flows", "frames", "samples", "stacks", *process.TABLES}


@pytest.fixture
def run_sql(capsys):
    """Return a function that runs `acapella sql ...` and returns (exit code, standard output, standard error)."""
    return lambda *args: (cli.main(["sql", *map(str, args)]), *capsys.readouterr())


@pytest.fixture
def answer(campaign, run_sql):
    """Return a function that runs a query on the campaign and returns the output in a format."""
    return lambda query, form, *options: run_sql(campaign, query, "--format", form, *options)[1]


def piped(*words) -> bytes:
    """Return what `acapella sql` writes to a pipe."""
    command = [Path(sys.executable).with_name("acapella"), "sql", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture
def mostly_broken(campaign, tmp_path):
    """Return a copy of the campaign whose acaps are not Parquet, except the first, which provides the schema, and those
    of SITE02.
    """
    directory = shutil.copytree(campaign, tmp_path / "copy")
    _, *others = sorted((directory / "acap").glob("*.parquet"))
    for acap in [acap for acap in others if not acap.name.startswith("site02")]:
        acap.write_bytes(b"not read")
    return directory


def test_filter_on_one_sample_reads_one_file(campaign, monkeypatch):
    monkeypatch.chdir(campaign)
    con = queries.connect("catalog.duckdb", read_only=True)
    query = "explain analyze select sum(wire_len) from frames where sample = 'site02-p1-0003'"
    assert "Total Files Read: 1 " in con.execute(query).fetchall()[0][1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select sum(frames) from samples", False),
        ("select fwd_frames from connections", False),
        ("select 1 from samples where exists (select 1 from Frames as f where f.sample = samples.sample)", True),
        ('with a as (select * from main."frames") from a', True),
        ("select count(*) from samples, frames", True),
        ("select 1 from stacks inner join samples using (sample) where stacks.frames > 0", False),
        ("select count(*) from query_table('frames')", True),
        ("select count(*) from query('from frames')", True),
        ("describe frames", True),
        ("show tables", False),
    ],
)
def test_only_queries_of_frames_list_the_acaps(campaign, run_sql, monkeypatch, query, expected):
    created = Mock(wraps=views.create_views)
    monkeypatch.setattr(views, "create_views", created)
    assert run_sql(campaign, query)[0] == 0
    assert ([call.kwargs["acaps"] for call in created.call_args_list] == [""]) == expected


def test_unknown_column_error_suggests_similar_columns_in_one_line(campaign, run_sql):
    code, out, err = run_sql(campaign, "select wire_length from frames")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert '"wire_length" not found' in err
    assert '; did you mean "' in err
    assert '"wire_len"' in err


@pytest.mark.parametrize("place", range(3))
def test_options_may_stand_before_between_and_after_campaign_and_query(campaign, run_sql, place):
    words = [campaign, "select 7 as n"]
    words[place:place] = ["--format", "json"]
    assert run_sql(*words) == (0, '[\n{"n": 7}\n]\n', "")


@pytest.mark.parametrize(
    "condition",
    ["sample = 'site02-p0-0001'", "site = 'SITE02'", "site = 'SITE02' and port like '%/1'", "site in ('SITE02')"],
)
def test_files_that_a_filter_excludes_are_not_opened(mostly_broken, run_sql, condition):
    query = f"select count(*) > 0 as found from frames where {condition}"
    assert run_sql(mostly_broken, query, "--format", "csv") == (0, "found\ntrue\n", "")


def test_without_a_filter_all_files_are_opened(mostly_broken, run_sql):
    code, _, err = run_sql(mostly_broken, "select count(src) from frames")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("acapella: error: ")


def test_campaign_is_the_current_directory_or_the_only_one_in_results(campaign, run_sql, tmp_path, monkeypatch):
    query = ("select count(*) as samples from samples", "--format", "csv")
    monkeypatch.chdir(campaign)
    assert run_sql(*query)[:2] == (0, "samples\n24\n")
    (new_directory(tmp_path / "results") / "one").symlink_to(campaign)
    monkeypatch.chdir(tmp_path)
    assert run_sql(*query)[:2] == (0, "samples\n24\n")
    new_directory(tmp_path / "results" / "cut" / "raw")
    warning = "acapella: warning: results/cut is ignored: its run is incomplete, without catalog.duckdb\n"
    assert run_sql(*query) == (0, "samples\n24\n", warning)
    (tmp_path / "results" / "two").symlink_to(campaign)
    code, _, err = run_sql(*query)
    assert code == 2
    assert err.startswith(f"{warning}acapella: error: several campaigns: one, two; ")


def test_tables_are_found_if_the_campaign_is_named_relative_to_the_directory(campaign, run_sql, monkeypatch):
    monkeypatch.chdir(campaign.parent)
    expected = run_sql(campaign, "select count(*) as n from capture_quality")
    assert expected[0] == 0
    assert run_sql(campaign.name, "select count(*) as n from capture_quality") == expected


def test_frames_are_found_from_any_directory(answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert answer("select count(*) > 1000 as many from frames", "csv") == "many\ntrue\n"


def test_each_text_format_contains_the_values_of_the_query(answer):
    query = "select 1 as n, 'a,b' as t, [100, 7] as vlan, null as nothing, true as yes, 2::hugeint ** 70 as big"
    assert answer(query, "csv").splitlines()[1].startswith('1,"a,b","[100, 7]",,true,')
    assert answer(query, "tsv").splitlines()[1].startswith("1\ta,b\t[100, 7]\t\ttrue\t")
    (row,) = json.loads(answer(query, "json"))
    assert (row["n"], row["vlan"], row["nothing"], row["yes"]) == (1, [100, 7], None, True)
    assert "a,b" in answer(query, "table")
    assert json.loads(answer("select 1 as n where false", "json")) == []
    assert json.loads(answer("select 1 as a, 2 as a, 3 as a_1, 4 as b, 5 as a", "json")) == [
        {"a": 1, "a_2": 2, "a_1": 3, "b": 4, "a_3": 5}
    ]


@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_null_and_empty_text_round_trip(answer, tmp_path, form, delimiter):
    """DuckDB and Arrow read them back, even from tables with one column and rows with only empty or null columns."""
    texts = [(None, ""), ("", None), ("", ""), (None, None), ('a"b', "c,\td"), ("e\r\nf", " "), ("null", '""')]
    literals = [", ".join("null" if text is None else f"'{text}'" for text in row) for row in texts]
    values = ", ".join(f"({number}, {pair})" for number, pair in enumerate(literals))
    query = f"select n, x, y from (values {values}) as t(n, x, y) order by n"
    file = write_file(tmp_path / "answer", answer(query, form))
    options = "header = true, quote = '\"', escape = '\"', allow_quoted_nulls = false, new_line = '\\n', "
    options += f"delim = '{delimiter}', columns = {{'n': 'int', 'x': 'varchar', 'y': 'varchar'}}"
    assert duckdb.sql(f"select x, y from read_csv('{file}', {options}) order by n").fetchall() == texts
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    nulls = {"strings_can_be_null": True, "quoted_strings_can_be_null": False, "null_values": [""]}
    table = pyarrow.csv.read_csv(file, None, parsing, pyarrow.csv.ConvertOptions(**nulls))
    assert list(zip(table["x"].to_pylist(), table["y"].to_pylist(), strict=True)) == texts
    query = "select x from (values (1, null), (2, ''), (3, 'a')) as t(n, x) order by n"
    assert answer(query, form) == 'x\n\n""\na\n'


def test_json_has_neither_nan_nor_python_text(answer):
    values = "'nan'::double as nan, '-inf'::float as low, 0.5::double as half, '\\xAB\\x00b'::blob as bytes"
    query = f"select {values}, ['inf'::double, 1] as list, {{'b': '\\xFF'::blob}} as struct"
    (row,) = json.loads(answer(query, "json"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert row == {"nan": None, "low": None, "half": 0.5, "bytes": "ab0062", "list": [None, 1], "struct": {"b": "ff"}}
    cells = answer(query, "csv").splitlines()[1]
    assert "ab0062" in cells
    assert "b'" not in cells


def test_json_has_decimals_as_exact_numbers(answer):
    number = "12345678901234567890123456.789012345678"  # more digits than a double can hold
    query = f"select {number}::decimal(38, 12) as whole, -0.50::decimal(3, 2) as half, [1.5::decimal(3, 1)] as list"
    query += ", 0.0000000001::decimal(20, 10) as little, {'a': 2.50::decimal(3, 2)} as struct, 1e300 as double"
    (row,) = json.loads(answer(query, "json"), parse_float=Decimal)
    assert row["whole"] == Decimal(number)
    assert row["half"] == Decimal("-0.50")
    assert row["list"] == [Decimal("1.5")]
    assert row["little"] == Decimal("1e-10")
    assert row["struct"] == {"a": Decimal("2.50")}
    assert row["double"] == Decimal("1e300")


def test_table_written_to_a_pipe_has_all_columns_and_rows(campaign):
    query = f"select i, repeat('x', 300) as text, {COLUMNS} from range(5000) as t(i)"
    printed = piped(campaign, query, "--format", "table").decode()
    lines = [line for line in printed.splitlines() if line.startswith("\u2502")]
    cells = [[cell.strip() for cell in line.split("\u2502")[1:-1]] for line in lines]
    assert [row[0] for row in cells[2:5002]] == [str(number) for number in range(5000)]
    assert cells[0] == ["i", "text", *(f"column_{n}" for n in range(20))]
    assert {row[1] for row in cells[2:5002]} == {"x" * 300}


def test_output_to_a_pipe_is_csv_of_all_columns(campaign):
    """A table on a terminal omits columns that do not fit."""
    names, values = csv.reader(piped(campaign, f"select {COLUMNS}").decode().splitlines())
    assert names == [f"column_{n}" for n in range(20)]
    assert values == [f"{n:030d}" for n in range(20)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("form", ["csv", "json", "table", "tsv"])
def test_control_characters_are_escaped_on_a_terminal(campaign, form):
    sql.query_catalog(Campaign(campaign), "select 'a\x1b[2Jb\nc\x9b' as \"x\x07\"", out := Terminal(), form=form)
    assert all(line.isprintable() for line in out.getvalue().split("\n"))
    assert "[2Jb" in out.getvalue()


def test_output_to_a_terminal_is_a_table(campaign):
    sql.query_catalog(Campaign(campaign), "select 7 as seven", out := Terminal())
    assert "seven" in out.getvalue()
    assert "\N{BOX DRAWINGS LIGHT VERTICAL}" in out.getvalue()
    with pytest.raises(UserError, match="Parquet is not written to a terminal"):
        sql.query_catalog(Campaign(campaign), "select 7 as seven", Terminal(), form="parquet")


def test_parquet_has_the_rows_and_types_of_the_query(campaign):
    frames = pq.read_table(io.BytesIO(piped(campaign, "from frames order by all", "--format", "parquet")))
    assert len(frames) == sum(pq.read_metadata(path).num_rows for path in (campaign / "acap").glob("*.parquet"))
    assert str(frames.schema.field("ts_ns").type) == "int64"


def test_moved_campaign_can_be_queried(campaign, run_sql, tmp_path):
    moved = shutil.copytree(campaign, tmp_path / "it's [moved]")
    shutil.move(campaign / "acap", campaign / "away")
    try:
        assert run_sql(moved, "select count(*) > 1000 as many from frames")[:2] == (0, "many\ntrue\n")
    finally:
        shutil.move(campaign / "away", campaign / "acap")


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from frames",
        "explain analyze from frames",
        "from (pivot frames on site in ('SITE02') using count(*))",
        "summarize frames",
    ],
)
@pytest.mark.parametrize(
    ("pruned", "reason"), [(True, "no longer in the cache of digests"), (False, "no such file")], ids=str
)
def test_query_of_frames_fails_if_acaps_are_missing(campaign, run_sql, tmp_path, query, pruned, reason):  # noqa: PLR0913, PLR0917
    directory = shutil.copytree(campaign, tmp_path / "copy")
    removed, *others = sorted((directory / "acap").glob("*.parquet"))
    removed.unlink()
    if pruned:
        removed.symlink_to(tmp_path / "cache" / "00" / f"{0:064x}_acap.parquet")
    missing = f"frames of 1 of {len(others) + 1} samples are missing (acap/{removed.name}: {reason})"
    expected = f"acapella: error: {directory}: {missing}; run snakemake, which digests these samples again\n"
    assert run_sql(directory, query) == (2, "", expected)
    assert run_sql(directory, "select sum(frames) > 0 as some from samples") == (0, "some\ntrue\n", "")


def test_queries_of_tables_need_no_acaps(campaign, run_sql, tmp_path):
    directory = shutil.copytree(campaign, tmp_path / "copy", ignore=shutil.ignore_patterns("acap"))
    assert run_sql(directory, "explain select frames from samples")[0] == 0
    assert run_sql(directory, "select sum(fwd_frames) > 0 as some from connections") == (0, "some\ntrue\n", "")
    first, second, third, *_ = sorted(path.name for path in (campaign / "acap").glob("*.parquet"))
    error = run_sql(directory, "from frames")[2]
    assert f": frames of 24 of 24 samples are missing (acap/{first}, acap/{second}, acap/{third}, ...: " in error


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ("..", "catalog.duckdb: no such file; specify a campaign: "),
        ("../..", "catalog.duckdb: no such file; specify a campaign: "),
        ("acap", "catalog.duckdb: no such file; specify a campaign: "),
        ("../campaigns", "campaigns: no such campaign directory; did you mean "),
        ("../../campaign", "campaign: no such campaign directory; did you mean "),
        ("../zzz", "zzz: no such campaign directory; specify a campaign: "),
    ],
)
def test_error_about_a_wrong_directory_names_the_campaign(below, message, run_sql, tmp_path):
    place = new_directory(tmp_path / "results" / "campaign" / "acap").parent
    write_file(place / "catalog.duckdb", "")
    directory = Path(os.path.normpath(place / below))
    code, out, err = run_sql(directory, "from samples")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{message}{place}" in err


@pytest.mark.parametrize(
    "statement",
    [
        "create table x as select 1",
        "delete from flows",
        "copy flows to 'stolen.csv'",
        "attach 'y.duckdb'",
        "set threads = 3",
        "explain analyze copy (select 1) to 'stolen.csv'",
        "EXPLAIN (analyze) copy (select 1) to 'stolen.csv'",
        "-- explain (\nexplain analyze copy flows to 'stolen.csv' /* )\nselect 1 -- */",
        "explain /* ( */ analyze copy flows to 'stolen.csv' -- ) select 1",
        "explain analyze with x as (copy flows to 'stolen.csv') from x",
        "with x as (copy flows to 'stolen.csv') from x",
        "with x as (insert into flows from flows returning *) from x",
        "import database 'db'",
        "pragma/**/import_database('db')",
        "explain analyze import database 'db'",
        "pragma force_checkpoint",
    ],
)
def test_statements_that_do_more_than_read_are_rejected(campaign, run_sql, statement):
    for name in ("schema", "load"):
        write_file(campaign / "db" / f"{name}.sql", "copy (select 1) to 'stolen.csv';\n")
    code, out, err = run_sql(campaign, statement)
    assert (code, out) == (2, "")
    assert "only reading is permitted" in err or "Parser Error" in err
    assert err.count("\n") == 1
    assert not (campaign / "stolen.csv").exists()


@pytest.mark.parametrize(
    "query",
    ["from read_text('{}')", "from read_csv('{}')", "from glob('{}*')", "pragma threads = 3", "pragma log='{}'"],
)
def test_query_cannot_read_files_outside_the_campaign_or_change_settings(campaign, run_sql, tmp_path, query):
    code, out, err = run_sql(campaign, query.format(write_file(tmp_path / "outside.csv", "secret\n1\n")))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "secret" not in err
    assert not (campaign / "stolen.csv").exists()


@pytest.mark.skipif(not _native.confinement_support()["landlock_abi"], reason="the kernel has no Landlock")
def test_query_can_write_only_temporary_files(campaign, tmp_path):
    """This holds even if DuckDB is asked to write: this test disables the check of the statement."""
    code = f"""
import sys
from acapella.campaign import sql
from acapella.cli import main as cli
sql.reading_statement = lambda con, query: query
sys.argv = ["acapella", "sql", {str(campaign)!r}, "copy flows to 'stolen.csv'"]
sys.exit(cli.main())
"""
    ended = run(sys.executable, "-c", code, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Permission denied" in ended.stderr
    assert not (campaign / "stolen.csv").exists()


@pytest.fixture
def foreign(campaign, tmp_path):
    """Return a campaign whose catalog reads a file outside the campaign instead of its samples."""
    directory = shutil.copytree(campaign, tmp_path / "foreign")
    outside = write_file(tmp_path / "outside.csv", "sample,site,port,sha256,start_ns,acap\nsecret,s,p,0,0,x\n")
    with duckdb.connect(str(directory / "catalog.duckdb")) as con:
        con.execute("drop view if exists samples; drop table if exists stored.samples")
        con.execute(f"create view samples as from read_csv('{outside}')")
    return directory


@pytest.mark.parametrize(
    "words",
    [
        ["campaign", "process", "foreign"],
        ["release", "-o", "public", "foreign"],
        ["sql", "foreign", "from catalog.samples"],
    ],
)
@pytest.mark.usefixtures("foreign")
def test_catalog_of_a_third_party_cannot_read_files_outside_the_campaign(tmp_path, monkeypatch, capsys, words):
    """This also holds if a query of acapella reads the catalog's views."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    printed = "".join(capsys.readouterr())
    assert "secret" not in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "public").exists()


def test_commands_that_open_a_catalog_lock_its_settings(campaign):
    con = queries.open_catalog(campaign)
    with pytest.raises(duckdb.Error, match="locked"):
        con.execute("set enable_external_access = true")
    assert con.execute("select count(*) from read_parquet($1)", [str(campaign / "acap" / "*.parquet")]).fetchone()[0]


def test_each_table_is_listed_once(answer):
    assert answer("show tables", "csv").splitlines()[1:] == sorted(TABLE_NAMES)


FORMULAS = ("=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20x")


@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_cells_that_look_like_formulas_begin_with_an_apostrophe(answer, form, delimiter):
    cells = [*FORMULAS, "a=1", ""]
    escaped = [cell.replace("\t", "' || chr(9) || '").replace("\r", "' || chr(13) || '") for cell in cells]
    values = ", ".join(f"('{cell}')" for cell in escaped)
    query = f"""select v as "=v", -7 as n, -0.5 as d, [-1] as l, null as x from (values {values}) as t(v)"""
    changed, plain = (
        list(csv.reader(io.StringIO(answer(query, form, *options)), delimiter=delimiter))
        for options in (["--spreadsheet"], [])
    )
    assert changed[0] == ["'=v", "n", "d", "l", "x"]
    assert [row[0] for row in changed[1:]] == [*(f"'{cell}" for cell in FORMULAS), "a=1", ""]
    assert changed[1][1:] == ["-7", "-0.5", "[-1]", ""]
    assert [row[0] for row in plain[1:]] == cells


def test_spreadsheet_option_is_rejected_for_other_formats(campaign, run_sql):
    code, out, err = run_sql(campaign, "select 1", "--format", "json", "--spreadsheet")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "query",
    [
        "explain select 1",
        "-- why\nexplain analyze\tselect 1;",
        "EXPLAIN (format json) select 1",
        "explain (analyze, format json) with x as (from flows) from x",
        "pragma table_info('flows')",
        "PRAGMA show_tables;",
    ],
)
def test_plans_and_tables_can_be_requested(campaign, run_sql, query):
    assert run_sql(campaign, query)[0] == 0


def test_all_stages_connect_through_the_function_whose_spill_directory_is_private():
    """DuckDB's own functions open a database that spills to a predictable directory or to the current directory."""
    opening = re.compile(r"duckdb\.(connect|sql|query|execute|read_\w+|from_\w+|default_connection)\b|temp_directory=")
    parts = ("workflow/src", "capture/src", "workflow/native/python")
    sources = [path for part in parts for path in ROOT.glob(f"{part}/**/*.py")]
    assert len(sources) > 200
    assert [path.name for path in sources for _ in opening.finditer(path.read_text(encoding="utf-8"))] == ["queries.py"]


def test_spill_directory_is_private_and_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    con = queries.connect()
    (directory,) = tmp_path.iterdir()
    assert directory == queries.spill_directory(con)
    assert directory.stat().st_mode & 0o777 == 0o700
    con.close()
    del con
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "mistake", ["selec 1", "select nope from flows", "select 1; select 2", "", "from nowhere", "select 1 +"]
)
def test_usage_error_prints_one_line(campaign, run_sql, mistake):
    code, out, err = run_sql(campaign, mistake)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_unknown_table_error_lists_known_tables(campaign, run_sql):
    _, _, err = run_sql(campaign, "select * from frmes")
    assert "frmes" in err
    assert err.endswith(f"; existing tables: {', '.join(sorted(TABLE_NAMES))}\n")


def test_missing_catalog_error_names_the_command_to_run(tmp_path):
    with pytest.raises(UserError, match="run acapella campaign index"):
        sql.query_catalog(Campaign(tmp_path), "select 1", None)
