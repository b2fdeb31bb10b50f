"""Extracts the parts of C and C++ sources that can change results: no comments, layout or messages of exceptions.

The build loads this file alone (generate_checksum.py), so it imports no other module of Acapella.
"""

import re

STRING = rb'"(?:\\.|[^"\\])*"'
CPP = re.compile(
    rb'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|'
    + STRING
    + rb"|(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])|'(?:\\.|[^'\\\n])*'|(?P<space>(?:\s|//[^\n]*|/\*.*?\*/)+)",
    re.DOTALL,
)
THROW = re.compile(rb"\bthrow\b(?:" + STRING + rb'|[^;"])*;')


def canonical(source: bytes) -> bytes:
    """Return a C or C++ source without comments, layout and messages of exceptions."""
    code = CPP.sub(lambda match: line_break(match["space"], match[0]), source).strip()
    return THROW.sub(lambda match: re.sub(STRING, b'""', match[0]), code)


def line_break(space: bytes | None, token: bytes) -> bytes:
    """Return a line break or a space for ``space`` and comments; another token unchanged.

    A line break ends a preprocessor directive.
    """
    if space is None:
        return token
    return b"\n" if b"\n" in space else b" "
