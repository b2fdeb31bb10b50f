"""Sources of samples: every testbed implements testbeds.base.Testbed."""

from ..settings import Settings
from .base import Testbed


def testbed_of(settings: Settings, campaign: str = "campaign") -> Testbed:
    """Return the testbed of the config; only its module is imported. Its resources are named after the campaign."""
    if settings.testbed == "files":
        from .files import FilesTestbed  # noqa: PLC0415

        return FilesTestbed(settings.samples)
    if settings.testbed == "fabric":
        from .fabric.own_slice.choice import permitted_testbed  # noqa: PLC0415

        return permitted_testbed(settings, campaign)
    from .local.testbed import LocalTestbed  # noqa: PLC0415

    return LocalTestbed(settings.local)


def testbeds_with_remains(settings: Settings, campaign: str) -> list[Testbed]:
    """Return the testbeds that a campaign may have used with this config, to release what it left."""
    if settings.testbed == "fabric":
        from .fabric.own_slice import choice  # noqa: PLC0415

        return [*choice.testbeds_with_remains(settings, campaign)]
    return [testbed_of(settings, campaign)]
