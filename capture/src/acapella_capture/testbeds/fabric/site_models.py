"""Switch ports from FABRIC's information model: a directory with a file per site, in JSON or GraphML.

The files contain the ports of the site's switch as labels, such as `"local_name": "HundredGigE0/0/0/5"`, in a graph
whose format differs between exports. Only the names of ports are read, so the format does not matter.
"""

import re
from pathlib import Path

from acapella_core.errors import UserError

from .resources import RATES, is_port

NAME = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(RATES)})[A-Za-z]*\d+(?:/\d+)+")
KEY = "fabric.site_models"
SUFFIXES = (".json", ".graphml", ".xml")


def ports(directory: str | None) -> dict[str, set[str]]:
    """Return the switch ports in the files SITE.json or SITE.graphml of a directory, by site in upper case.

    VLAN sub-interfaces count as their port. Raises UserError if a file cannot be read or contains no port.
    """
    if directory is None:
        return {}
    names_by_site: dict[str, set[str]] = {}
    try:
        for path in sorted(Path(directory).expanduser().iterdir()):
            if path.suffix not in SUFFIXES:
                continue
            names = {name for name in NAME.findall(path.read_text(encoding="utf-8", errors="replace")) if is_port(name)}
            if not names:
                raise UserError(f"{path} contains no switch port", where=KEY)
            names_by_site.setdefault(path.stem.upper(), set()).update(names)
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}", where=KEY) from error
    if not names_by_site:
        raise UserError(f"no file SITE.json or SITE.graphml in {directory}", where=KEY)
    return names_by_site
