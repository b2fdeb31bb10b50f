"""A campaign's directory, results/<campaign>/: which files stand where."""

from dataclasses import dataclass
from pathlib import Path

from acapella_core import beneath
from acapella_core.errors import UserError


@dataclass(frozen=True)
class Campaign:
    """Paths of a campaign's files; nothing is read."""

    directory: Path

    @property
    def catalog(self) -> Path:
        """The DuckDB catalog that `acapella campaign index` writes."""
        return self.directory / "catalog.duckdb"

    def manifest(self, sample: str) -> Path:
        """How a sample was taken."""
        return self.directory / "raw" / f"{sample}.json"

    def acap(self, sample: str) -> Path:
        """A sample's frames."""
        return self.directory / "acap" / f"{sample}.parquet"

    def flows(self, sample: str) -> Path:
        """A sample's flows."""
        return self.directory / "flows" / f"{sample}.parquet"

    def partial(self, sample: str, table: str) -> Path:
        """What `acapella campaign analyze` made of one sample for one table."""
        return self.directory / "partial" / sample / f"{table}.parquet"

    def table(self, name: str, suffix: str) -> Path:
        """A published table, as csv or parquet."""
        return self.directory / "tables" / f"{name}.{suffix}"


def opened(directory: str | Path) -> Campaign:
    """Return the campaign of a directory; from then on writers follow no link beneath it.

    Raises UserError if it is no directory.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError("no such campaign directory", where=directory)
    beneath.protect(directory)
    return Campaign(directory)


def require(path: Path, fix: str) -> Path:
    """``path`` where it is a readable file. Raises UserError with ``fix`` otherwise."""
    if not path.is_file():
        raise UserError("no such file", where=path, fix=fix)
    return path
