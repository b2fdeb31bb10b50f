"""The documentation site works without a web server and without the network."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.requirements import require
from acapella_testing.source_tree import ROOT

SCRIPT = ROOT / "workflow" / "setup" / "site" / "build.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Return the directory of a site built from this tree."""
    mkdocs = Path(sys.executable).with_name("mkdocs")
    require(mkdocs.is_file(), f"no MkDocs: {mkdocs} is missing (make site installs it)")
    directory = tmp_path_factory.mktemp("site")
    build = module()
    build.SOURCE, build.SITE = directory / "source", directory / "site"
    build.copy_pages()
    text = (SCRIPT.parent / "mkdocs.yml").read_text(encoding="utf-8")
    text = text.replace("../../../build/site-source", str(build.SOURCE)).replace("../../../build/site", str(build.SITE))
    (directory / "mkdocs.yml").write_text(text, encoding="utf-8")
    command = [mkdocs, "build", "--strict", "--config-file", directory / "mkdocs.yml"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert build.foreign() == []
    return build.SITE


def module():
    """Return the build script as a module."""
    spec = importlib.util.spec_from_file_location("build_site", SCRIPT)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_search_works_on_files_and_loads_nothing_from_other_hosts(site, browser):
    page = browser.new_page()
    requests, errors = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("kappa", delay=20)
    result = page.locator(".md-search-result__link").first
    result.wait_for()
    assert "kappa" in result.inner_text().lower()
    assert errors == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.html", '<script src="https://cdn.example/x.js"></script>'),
        ("page.html", '<link rel="stylesheet" href="//fonts.example/x.css">'),
        ("page.html", "<img src=http://images.example/x.png>"),
        ("style.css", "@font-face{src:url(https://fonts.example/x.woff2)}"),
        ("style.css", '@import "https://fonts.example/x.css";'),
    ],
)
def test_resources_of_other_hosts_are_found(tmp_path, name, text):
    build = module()
    build.SITE = tmp_path
    (tmp_path / name).write_text(text)
    assert len(build.foreign()) == 1


def test_links_to_other_sites_are_allowed(tmp_path):
    build = module()
    build.SITE = tmp_path
    (tmp_path / "page.html").write_text('<a href="https://semver.org">versions</a>')
    assert build.foreign() == []
