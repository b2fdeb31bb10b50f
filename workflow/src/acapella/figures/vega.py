"""Provides Vega, Vega-Lite and vega-embed as one script, compiled once by vl-convert and later read from a file."""

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

VEGA_LITE = "6.4"


@functools.cache
def vega() -> str:
    """Return the script (about 0.9 MB)."""
    return kept() or compiled()


def keep() -> None:
    """Have a child process write the script to its file, unless it exists. A confined process cannot write it.

    vl-convert is not loaded here: its threads would stay unconfined.
    """
    if kept() is None and os.access(kept_file().parent, os.W_OK):
        subprocess.run([sys.executable, "-P", "-m", __name__], stderr=subprocess.DEVNULL, check=False)


def write() -> None:
    """Write the script to its file; do nothing if it is not writable."""
    script, file = compiled().encode(), kept_file()
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        temporary.write_bytes(f"{hashlib.sha256(script).hexdigest()}\n".encode() + script)
        temporary.replace(file)


def kept() -> str | None:
    """Return the script in the file; None if it is missing or damaged."""
    try:
        checksum, _, script = kept_file().read_bytes().partition(b"\n")
    except OSError:
        return None
    return script.decode() if hashlib.sha256(script).hexdigest().encode() == checksum else None


def kept_file() -> Path:
    """Return the path of the file, next to the modules that Python has compiled."""
    name = f"vega-{VEGA_LITE}.vl-convert-{version('vl-convert-python')}.cache"
    return Path(__file__).parent / "__pycache__" / name


def compiled() -> str:
    """Return the script as vl-convert compiles it."""
    import vl_convert  # noqa: PLC0415 (slow to import)

    return vl_convert.javascript_bundle(vl_version=VEGA_LITE).replace("</script", "<\\/script")


if __name__ == "__main__":
    write()
