#!/usr/bin/env python3
"""Builds the documentation site in build/site.

Copies the pages and the files that they link to, at their paths, to build/site-source and runs `mkdocs build --strict`
there, which fails for broken links and anchors. It also fails if a page loads anything from another host.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
LINK = re.compile(r"(?<!!)!?\[[^\]]*\]\(([^)\s#:]+)(?:#[^)]*)?\)")
# Resources that a browser fetches without a click, from a host named in the page.
FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
                     r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>", re.I)  # fmt: skip
FETCHED_BY_CSS = re.compile(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//[^)\"']*", re.I)


def pages(entry: object) -> list[str]:
    """Return the paths of the pages in a part of `nav`."""
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [path for child in children for path in pages(child)]


def copy_pages() -> None:
    """Copy the pages in `nav`, and the files that they link to, to build/site-source."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    text = (HERE / "mkdocs.yml").read_text(encoding="utf-8")
    selected = pages(yaml.safe_load(text)["nav"])
    linked = [str((HERE / "iframe-worker.js").relative_to(ROOT))]
    for page in selected:
        for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            path = Path(os.path.normpath(Path(page).parent / target))
            if path.suffix != ".md" and (ROOT / path).is_file():
                linked.append(str(path))
    for path in {*selected, *linked}:
        (SOURCE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, SOURCE / path)


def foreign() -> list[str]:
    """Return the resources that pages and style sheets of the site load from another host."""
    found = []
    for path in sorted(SITE.rglob("*")):
        if path.suffix in (".html", ".css"):
            expression = FETCHED if path.suffix == ".html" else FETCHED_BY_CSS
            hits = expression.finditer(path.read_text(encoding="utf-8"))
            found += [f"{path.relative_to(SITE)}: loads from another host: {hit[0]}" for hit in hits]
    return found


def main() -> int:
    copy_pages()
    command = ["mkdocs", "build", "--strict", "--clean", "--config-file", str(HERE / "mkdocs.yml")]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode:  # --quiet would hide warnings from --strict
        print(built.stdout + built.stderr, file=sys.stderr)
        return built.returncode
    found = foreign()
    print("\n".join(found) or "site: wrote build/site/index.html")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
