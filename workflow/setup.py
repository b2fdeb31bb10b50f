"""Add workflow/sql and workflow/conformance to wheels; an editable installation reads them in the source tree.

The rest is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithQueries(build_py):
    """Copy the SELECT statements and the printed numbers of papers next to the modules."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for directory in ("sql", "conformance"):
                shutil.copytree(directory, Path(self.build_lib) / "acapella" / directory, dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithQueries})
