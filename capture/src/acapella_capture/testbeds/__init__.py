"""Where samples come from: every testbed implements testbeds.base.Testbed."""

from ..settings import Settings
from .base import Testbed


def testbed_of(settings: Settings) -> Testbed:
    """The testbed that the config names; its module is imported only then."""
    if settings.testbed == "files":
        from .files import FilesTestbed  # noqa: PLC0415

        return FilesTestbed(settings.samples)
    from .local import LocalTestbed  # noqa: PLC0415

    return LocalTestbed(settings.local)
