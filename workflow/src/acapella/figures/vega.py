"""Provides Vega, Vega-Lite and vega-embed as one script: a bundle of vl-convert, cached in a file."""

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
    return cached_script() or bundle()


def fill_cache() -> None:
    """Write the cache file in a child process, unless it exists. A confined process cannot write it.

    vl-convert is not loaded here: its threads would stay unconfined.
    """
    if cached_script() is None and os.access(cache_file().parent, os.W_OK):
        subprocess.run([sys.executable, "-P", "-m", __name__], stderr=subprocess.DEVNULL, check=False)


def write() -> None:
    """Write the script to the cache file; ignore errors, such as a read-only directory."""
    script, file = bundle().encode(), cache_file()
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        temporary.write_bytes(f"{hashlib.sha256(script).hexdigest()}\n".encode() + script)
        temporary.replace(file)


def cached_script() -> str | None:
    """Return the script in the cache file; None if it is missing or damaged."""
    try:
        checksum, _, script = cache_file().read_bytes().partition(b"\n")
    except OSError:
        return None
    return script.decode() if hashlib.sha256(script).hexdigest().encode() == checksum else None


def cache_file() -> Path:
    """Return the path of the cache file, in the directory of the modules that Python has compiled."""
    name = f"vega-{VEGA_LITE}.vl-convert-{version('vl-convert-python')}.cache"
    return Path(__file__).parent / "__pycache__" / name


def bundle() -> str:
    """Return the bundle that vl-convert creates."""
    import vl_convert  # noqa: PLC0415 (slow to import)

    return vl_convert.javascript_bundle(vl_version=VEGA_LITE).replace("</script", "<\\/script")


if __name__ == "__main__":
    write()
