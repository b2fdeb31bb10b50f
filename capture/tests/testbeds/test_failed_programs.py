"""Why a program on a node failed, as the error of its caller reports it."""

import pytest

from acapella_capture.testbeds.base import CompletedProgram
from acapella_capture.testbeds.local import processes
from acapella_core.errors import UserError

LINES = "link set lo up\nlink set x up\n"


@pytest.mark.parametrize(
    ("status", "output", "errors", "reason"),
    [
        (1, "", 'Cannot find device "x"\nCommand failed -:2\n', 'Cannot find device "x" (link set x up)'),
        (1, "", 'Illegal "rate"\nUsage: ... rate R\n\n rate\nCommand failed -:1\n', 'Illegal "rate" (link set lo up)'),
        (1, "", "Usage: ip link\nCommand failed -:1\n", "Usage: ip link (link set lo up)"),
        (1, "", "Command failed -:1\n", "Command failed -:1 (link set lo up)"),
        (1, "", "why\nCommand failed -:9\n", "why"),  # not a line of the input
        (255, "", "usage\nError: invalid address\n", "Error: invalid address"),
        (1, "printed\nwhy\n", "", "why"),
        (3, "", "", "exit status 3"),
    ],
)
def test_error_has_the_reason_and_the_failed_line_of_a_batch(monkeypatch, status, output, errors, reason):
    monkeypatch.setattr(processes, "run", lambda *_, **__: CompletedProgram(status, output, errors))
    with pytest.raises(UserError) as raised:
        processes.run_checked("site1", ["ip", "-batch", "-"], stdin=LINES)
    assert str(raised.value) == f"node site1: ip failed: {reason}"
