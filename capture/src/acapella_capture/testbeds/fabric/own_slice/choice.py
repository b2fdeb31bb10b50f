"""Chooses how samples are taken on FABRIC, based on the permissions of the project."""

from ....settings import Settings
from .. import credentials
from ..session import Session
from ..testbed import FabricTestbed
from . import levels
from .host import HostTestbed
from .own import OwnSliceTestbed


def permitted_testbed(settings: Settings, campaign: str) -> FabricTestbed:
    """Return the testbed with the highest level that the project may use. Raises UserError without a valid token."""
    fabric, collect = settings.fabric, settings.collect
    session = Session(credentials.find(fabric.fabric_rc), fabric.poll_s)
    level = levels.choose(fabric, session.tags())
    if level == "slice":
        return OwnSliceTestbed(fabric, campaign, own=collect.slice, session=session)
    if level == "host":
        return HostTestbed(fabric, campaign, own=collect.slice, session=session)
    follow = collect.slice if collect.mode == "slice" else None
    fixed = collect.ports if collect.port_selection == "fixed" else None
    return FabricTestbed(fabric, campaign, follow=follow, fixed=fixed, session=session)


def testbeds_with_remains(settings: Settings, campaign: str) -> list[FabricTestbed]:
    """Return the testbeds that the campaign may have used: first the testbed of the current level, then the others.

    The project may have lost a permission, or the config may have changed since.
    """
    now = permitted_testbed(settings, campaign)
    if isinstance(now, OwnSliceTestbed):
        return [now, FabricTestbed(settings.fabric, campaign, session=now.session)]
    if settings.collect.mode != "slice":
        return [now]
    return [now, OwnSliceTestbed(settings.fabric, campaign, own=settings.collect.slice, session=now.session)]
