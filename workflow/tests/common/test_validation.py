"""Importing jsonschema is fast, even if optional packages for unused formats are installed."""

import os
import sys

import pytest
from acapella_testing.processes import run


@pytest.mark.parametrize(
    "code",
    [
        "from acapella_capture import settings; settings.parse_settings({'testbed': 'local'})",
        "from acapella.snakefile import config; config.checked({'campaign': 'x', 'samples': 's.tsv'})",
        "from acapella_core.validation import load_jsonschema; load_jsonschema(); import altair",
    ],
    ids=["capture", "config", "Altair"],
)
def test_jsonschema_is_imported_without_the_iri_grammar(tmp_path, code):
    """The grammar, which is slow to import, is replaced by a module that fails. Only an explicit import runs it."""
    (tmp_path / "rfc3987_syntax.py").write_text("raise RuntimeError('imported')\n")
    code += "\nimport jsonschema\nimport rfc3987_syntax"
    ended = run(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert ended.stderr.splitlines()[-1] == "RuntimeError: imported"
    assert '"<string>", line 3' in ended.stderr
