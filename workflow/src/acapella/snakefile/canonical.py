"""Extracts the parts of source files that can change results: code without comments, docstrings and messages.

`canonical` returns the same bytes for two versions of a file that differ only in these parts or in their layout, so
that Snakemake does not repeat a stage for them. Messages are the text of exceptions, of lines printed on the terminal
or in logs, and of help, if it is an argument of the call that raises or prints it: text that is first assigned to a
variable or returned by a function remains, because a result may contain it. Text in manifests (`notes`) comes from
exceptions: it remains unchanged until a stage reruns for a different reason.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
import re
from pathlib import Path

from acapella_core import cpp_code

PRINTING = ("print", "report")  # functions whose arguments are messages
PARSING = ("add_argument", "add_parser", "add_argument_group", "add_subparsers")  # methods of argparse
HELP = ("help", "description", "epilog", "metavar")
STDERR = ast.dump(ast.parse("sys.stderr", mode="eval").body)
SQL = re.compile(
    rb"""'[^']*'|"[^"]*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|(?P<space>(?:\s|--[^\n]*|/\*.*?\*/)+)""", re.DOTALL
)


def canonical(path: Path, source: bytes) -> bytes:
    """Return a source file without comments, docstrings, messages and layout; other files unchanged.

    A Python file with a syntax error is returned unchanged.
    """
    if path.suffix == ".py":
        with contextlib.suppress(SyntaxError):
            return ast.dump(WithoutMessages().visit(ast.parse(source))).encode()
    if path.suffix in (".cpp", ".hpp", ".c", ".h"):
        return cpp_code.canonical(source)
    if path.suffix == ".sql":
        return SQL.sub(lambda match: b" " if match["space"] else match[0], source).strip()
    return source


class WithoutMessages(ast.NodeTransformer):
    """Removes docstrings and the text of messages from a syntax tree."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Remove expressions that consist only of text, such as docstrings."""
        super().generic_visit(node)
        if isinstance(getattr(node, "body", None), list):
            node.body = [statement for statement in node.body if not is_text(statement)]
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Remove the text of exceptions."""
        return self.generic_visit(WithoutTexts().visit(node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Remove the text of printed lines, exceptions and help."""
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if (name in PRINTING and not writes_file(node)) or name.endswith("Error"):
            WithoutTexts().generic_visit(node)
        elif name in PARSING:
            for keyword in node.keywords:
                if keyword.arg in HELP:
                    WithoutTexts().generic_visit(keyword)
        return self.generic_visit(node)


class WithoutTexts(ast.NodeTransformer):
    """Replaces all strings in a syntax tree with empty ones."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Replace a string."""
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, _: ast.JoinedStr) -> ast.AST:
        """Replace an f-string, including the expressions in it."""
        return ast.Constant("")


def writes_file(call: ast.Call) -> bool:
    """Return whether a call of `print` writes to a file other than standard error."""
    return any(word.arg == "file" and ast.dump(word.value) != STDERR for word in call.keywords)


def is_text(statement: ast.AST) -> bool:
    """Return whether a statement consists only of text."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


class Checksums:
    """The SHA-256 of canonical sources, kept in a file, because parsing all modules takes as long as Snakemake's start.

    ``file``: JSON that maps the checksum of each source to the checksum of its canonical form. It is only a cache.
    """

    def __init__(self, file: Path):
        self._file = file
        rules = b"".join(Path(module).read_bytes() for module in (__file__, cpp_code.__file__))
        self._version = hashlib.sha256(rules).hexdigest()
        self._known = self._read()
        self._new = False

    def _read(self) -> dict[str, str]:
        """Return the content of the file; an empty dict if it is missing, damaged or of a different version."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            content = json.loads(self._file.read_text(encoding="utf-8"))
            if content.get("version") == self._version:
                return dict(content["checksums"])
        return {}

    def of(self, path: Path, source: bytes) -> str:
        """Return the SHA-256 of a canonical source."""
        key = hashlib.sha256(path.suffix.encode() + source).hexdigest()
        if key not in self._known:
            self._known[key] = hashlib.sha256(canonical(path, source)).hexdigest()
            self._new = True
        return self._known[key]

    def save(self) -> None:
        """Write new checksums to the file; do nothing if it is not writable."""
        if not self._new:
            return
        self._new = False
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(exist_ok=True)
            temporary.write_text(json.dumps({"version": self._version, "checksums": self._known}), encoding="utf-8")
            temporary.replace(self._file)


@functools.cache
def checksums(file: Path) -> Checksums:
    """Return the checksums in a file; it is read once."""
    return Checksums(file)
