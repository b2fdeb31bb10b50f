"""A FABRIC on loopback: its servers, the behaviors of each, and the nodes of slices.

Test modules that import it are skipped if FABRIC's client is not installed.
"""

import pytest

pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")
