"""Protected directories: writers follow no symbolic link beneath them.

A results directory may come from a third party and contain links: `tables/throughput.csv` to a file of the user, or
`tables` to another directory. `protect` marks such a directory; the Snakefile sets ACAPELLA_CAMPAIGN for its jobs,
whose output files are separate arguments. Writers then open the directory of a file with openat2, RESOLVE_BENEATH
and RESOLVE_NO_SYMLINKS; on kernels before 5.6, or to make directories, they open one component at a time with
O_NOFOLLOW. The last component must not be a link either. If a directory is replaced afterwards, writers still use its
descriptor. The protected directory itself may be a link, and readers follow links.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import UserError

VARIABLE = "ACAPELLA_CAMPAIGN"
FIX = "remove the link, or replace it with a copy of its target"

# After these errors of openat2 the components are opened one at a time: it is not supported (ENOSYS, or EPERM by a
# seccomp filter), a directory is renamed at the same time (EAGAIN) or missing (ENOENT), or the error has to name the
# link (ELOOP).
STEPWISE = (errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.ENOENT, errno.ELOOP)

_protected: set[str] = set()


def protect(directory: str | os.PathLike) -> None:
    """Make writers of this process follow no links below a directory. Raises UserError like `check_directory`."""
    check_directory(directory)
    _protected.update((os.path.abspath(directory), os.path.realpath(directory)))  # noqa: PTH100


def check_directory(directory: str | os.PathLike) -> None:
    """Raise UserError if a path, or the nearest existing one above it, is not a directory."""
    path = Path(os.path.abspath(directory))  # noqa: PTH100
    nearest = next(existing for existing in (path, *path.parents) if existing.exists())
    if not nearest.is_dir():
        fix = "move it elsewhere, or use another directory"
        raise UserError("is a file, not a directory", where=nearest, fix=fix)


def root_of(path: str | os.PathLike) -> str | None:
    """Return the outermost protected directory above a path; None if there is none."""
    campaign = os.environ.get(VARIABLE)
    roots = _protected | ({os.path.abspath(campaign), os.path.realpath(campaign)} if campaign else set())  # noqa: PTH100
    absolute_path = os.path.abspath(path)  # noqa: PTH100
    return min((root for root in roots if absolute_path.startswith(f"{root.rstrip('/')}/")), key=len, default=None)


def located(path: str | os.PathLike) -> Path:
    """Return the absolute path of a file to write; beneath a protected directory no link is resolved.

    Raises UserError if a component beneath a protected directory is a link.
    """
    if root_of(path) is None:
        return Path(path).resolve()
    with parent(path):
        return Path(os.path.abspath(path))  # noqa: PTH100


@contextlib.contextmanager
def parent(path: str | os.PathLike, *, make: bool = False, link: bool = False) -> Iterator[int | None]:
    """Yield a descriptor of the directory of ``path``; None if it does not exist. ``make``: create missing directories.

    Raises UserError if a component beneath a protected directory is a link, the last one included unless it may be a
    ``link``, and OSError.
    """
    root, location = root_of(path), Path(os.path.abspath(path))  # noqa: PTH100
    if root is None:
        root = str(Path(path).parent.resolve())
        location = Path(root, location.name)
    if make:
        Path(root).mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as opened:
        try:
            descriptor = keep_open(opened, os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            if parts := location.relative_to(root).parts[:-1]:
                descriptor = keep_open(opened, open_below(descriptor, Path(root), parts, make=make))
        except FileNotFoundError:
            if make:
                raise
            yield None
            return
        if root_of(path) is not None and not link:
            refuse_link(descriptor, location.name, location)
        yield descriptor


def keep_open(opened: contextlib.ExitStack, descriptor: int) -> int:
    """Return a descriptor that is closed with the stack."""
    opened.callback(os.close, descriptor)
    return descriptor


def open_below(descriptor: int, root: Path, parts: Sequence[str], *, make: bool) -> int:
    """Return a descriptor of a directory below ``root``; ``make``: create missing ones. Raises like `parent`."""
    from . import _native  # noqa: PLC0415 - keeps `--help` fast

    try:
        return _native.open_beneath(descriptor, os.fsencode(os.path.join(*parts)))  # noqa: PTH118
    except OSError as error:
        if error.errno not in STEPWISE:
            raise
    with contextlib.ExitStack() as opened:
        for depth, name in enumerate(parts):
            refuse_link(descriptor, name, Path(root, *parts[: depth + 1]))
            descriptor = keep_open(opened, open_inner(descriptor, name, make=make))
        return os.dup(descriptor)


def open_inner(descriptor: int, name: str, *, make: bool) -> int:
    """Return a descriptor of a directory in another one, which must not be a link; ``make``: create it if missing."""
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=descriptor)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)


def refuse_link(descriptor: int, name: str, location: Path) -> None:
    """Raise UserError if a directory has a symbolic link of this name; ``location`` is its path for the message."""
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise UserError("is a symbolic link, and links are not followed here", where=location, fix=FIX)


def open_file(path: str | os.PathLike, flags: int, mode: int = 0o600) -> int:
    """Return a descriptor of a file that is not a link, as os.open; missing directories are created.

    Raises UserError as `parent`, and if the file is a link even outside of protected directories; and OSError.
    """
    with parent(path, make=True) as above:
        try:
            return os.open(Path(path).name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=above)
        except OSError as error:
            if error.errno != errno.ELOOP:
                error.filename = os.fspath(path)  # not only the name in its directory
                raise
            raise UserError("is a symbolic link, and links are not followed here", where=path, fix=FIX) from error


def inside(descriptor: int, directory: Path) -> Path:
    """Return a path of an open directory that remains valid if ``directory`` is replaced: that of its descriptor.

    Without /proc it is ``directory``.
    """
    path = Path(f"/proc/self/fd/{descriptor}")
    return path if path.exists() else directory


def make_directory(path: str | os.PathLike, mode: int = 0o777) -> None:
    """Create a directory and its parents if they do not exist. Raises UserError as `parent`."""
    with parent(path, make=True) as above, contextlib.suppress(FileExistsError):
        os.mkdir(Path(path).name, mode, dir_fd=above)
