"""Writes the files of a figure. PDF and PNG are created from the SVG; the same figure yields identical bytes."""

import re
from pathlib import Path

import vl_convert

from acapella_core.files import atomic_path

from .compose import ComposedFigure
from .page import figure_page
from .vega import VEGA_LITE

PNG_SCALE = 2  # pixels per CSS pixel
RESOURCES = re.compile(rb"(?:^ +/\w+ \d+ 0 R\n){2,}", re.MULTILINE)
CLIP = re.compile(r'(id="clip|url\(#clip)([0-9]+)')


def save(figure: ComposedFigure, directory: Path, name: str, formats: list[str]) -> list[Path]:
    """Write ``directory``/``name``.FORMAT for each format, atomically; return the paths."""
    svg = svg_of(figure)
    writers = {
        "svg": svg.encode,
        "pdf": lambda: pdf_of(svg),
        "png": lambda: vl_convert.svg_to_png(svg, scale=PNG_SCALE),
        "html": lambda: figure_page(figure).encode(),
    }
    paths = [directory / f"{name}.{form}" for form in formats]
    for path, form in zip(paths, formats, strict=True):
        with atomic_path(path) as temporary:
            temporary.write_bytes(writers[form]())
    return paths


def svg_of(figure: ComposedFigure) -> str:
    """Return the figure as SVG.

    Vega numbers clip paths per process. Here, they are renumbered from 1, so that the bytes of a figure do not depend
    on figures drawn before it.
    """
    svg = vl_convert.vegalite_to_svg(figure.spec, vl_version=VEGA_LITE, show_warnings=False, allowed_base_urls=[])
    numbers: dict[str, int] = {}
    return CLIP.sub(lambda m: f"{m[1]}{numbers.setdefault(m[2], len(numbers) + 1)}", svg)


def pdf_of(svg: str) -> bytes:
    """Return a figure as PDF with vector graphics.

    The converter writes the resource names of a page in the order of a hash table, which differs between runs. The
    order of a PDF dictionary has no meaning (ISO 32000-2, section 7.3.7), so the lines are sorted. This does not move
    other bytes, so the cross-reference table remains valid.
    """
    return RESOURCES.sub(lambda m: b"".join(sorted(m[0].splitlines(keepends=True))), vl_convert.svg_to_pdf(svg))
