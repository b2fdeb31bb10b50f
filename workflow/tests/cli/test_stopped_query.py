"""Interrupts during a query, for which DuckDB raises a separate error."""

import argparse
import faulthandler
import os
import signal
import sys
import threading

import pytest

from acapella.cli import main as cli
from acapella.common import queries

ENDLESS = "select sum(hash(a.range, b.range)) from range(100000000) a, range(100000000) b"


@pytest.mark.parametrize("use_cursor", [False, True], ids=["connection", "cursor"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_during_a_query_prints_one_line(monkeypatch, capsys, number, code, use_cursor):
    def run(_):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
        timer.start()
        queries.connect().close()
        connection = queries.connect(threads=8)
        try:
            (queries.cursor(connection) if use_cursor else connection).sql(ENDLESS).fetchall()
        finally:
            timer.cancel()

    parser = argparse.ArgumentParser()
    parser.set_defaults(run=run, debug=False)
    monkeypatch.setattr(cli, "build_parser", lambda *_: parser)
    # otherwise a query that continues would hang all tests
    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)
    before = {kept: signal.getsignal(kept) for kept in (signal.SIGINT, *cli.TERMINATION)}
    try:
        ended = cli.main([])
    except SystemExit as exited:  # the signal arrived before the query began, or DuckDB passed it on
        ended = exited.code
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert (ended, capsys.readouterr().err) == (code, "acapella: stopped\n")
    assert {kept: signal.getsignal(kept) for kept in before} == before, "a second command would not receive them"
