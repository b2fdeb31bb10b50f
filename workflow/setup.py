"""Add workflow/sql to wheels; an editable installation reads it in the source tree. The rest is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithQueries(build_py):
    """Copy the SELECT statements next to the modules."""

    def run(self):
        super().run()
        if not self.editable_mode:
            shutil.copytree("sql", Path(self.build_lib) / "acapella" / "sql", dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithQueries})
