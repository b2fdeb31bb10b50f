"""Pages opened in a browser, and their messages and requests. Pages of this project cause none."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def opened_page(browser, path: Path) -> Iterator[tuple]:
    """Open a file in a new tab; yield the tab, and the messages and requests for other files and hosts so far."""
    tab, messages, url = browser.new_page(), [], path.as_uri()
    tab.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: messages.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: (messages.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("request", lambda request: messages.append(request.url) if is_external(request.url, url) else None)
    tab.goto(url)
    yield tab, messages
    tab.close()


def is_external(requested: str, page: str) -> bool:
    """Return whether a request reads something other than the page itself or data in it."""
    return requested != page and not requested.startswith(("data:", "blob:"))
