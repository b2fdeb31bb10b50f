"""The documentation site works without a web server and without the network."""

import sys
from pathlib import Path

import pytest
from acapella_testing.new_files import write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require
from acapella_testing.runs.browser_pages import opened_page
from acapella_testing.source_tree import ROOT, script

SCRIPT = ROOT / "workflow" / "setup" / "site" / "build.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Return the directory of a site built from this tree."""
    mkdocs, directory = Path(sys.executable).with_name("mkdocs"), tmp_path_factory.mktemp("site")
    require(mkdocs.is_file(), f"no MkDocs: {mkdocs} is missing (make site installs it)")
    build = script(SCRIPT)
    build.SOURCE, build.SITE = directory / "source", directory / "site"
    build.copy_pages()
    text = (SCRIPT.parent / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("../../../build/site-source", str(build.SOURCE)).replace("../../../build/site", str(build.SITE))
    ended = run(mkdocs, "build", "--strict", "--config-file", write_file(directory / "mkdocs.yml", text))
    assert ended.returncode == 0, ended.stderr
    assert build.foreign() == []
    return build.SITE


@pytest.mark.soak
def test_search_works_without_a_web_server_and_loads_nothing_from_other_hosts(site, browser):
    with opened_page(browser, site / "index.html") as (page, messages):
        page.keyboard.press("/")
        page.keyboard.type("kappa", delay=20)
        result = page.locator(".md-search-result__link").first
        result.wait_for()
        assert "kappa" in result.inner_text().lower()
    assert not [message for message in messages if message.startswith("error: ")]
    assert not [message for message in messages if "://" in message and not message.startswith("file:")]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("page.html", '<script src="https://cdn.example/x.js"></script>', 1),
        ("page.html", '<link rel="stylesheet" href="//fonts.example/x.css">', 1),
        ("page.html", "<img src=http://images.example/x.png>", 1),
        ("style.css", "@font-face{src:url(https://fonts.example/x.woff2)}", 1),
        ("style.css", '@import "https://fonts.example/x.css";', 1),
        ("page.html", '<a href="https://semver.org">versions</a>', 0),
    ],
)
def test_resources_of_other_hosts_are_found_and_links_are_allowed(tmp_path, name, text, found):
    build = script(SCRIPT)
    build.SITE = write_file(tmp_path / name, text).parent
    assert len(build.foreign()) == found
