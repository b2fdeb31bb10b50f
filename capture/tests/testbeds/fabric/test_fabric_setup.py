"""Setup of listening nodes after their first boot: packages, and receivers that send nothing."""

import acapella_testing.fabric  # noqa: F401 (skips this module if FABRIC's client is not installed)
import pytest
from acapella_testing.processes import executable, run

from acapella_capture.testbeds.fabric.nodes import packages


def test_receivers_send_no_frames_and_a_clock_that_is_not_synchronized_is_a_note(fabric):
    (fabric.nodes.home("STAR-listener1") / "unsynchronized").touch()
    with fabric.allocated() as (testbed, instance):
        commands = fabric.nodes.commands_of(instance.name)
        assert any(note.startswith(f"the clock of {instance.name} was not synchronized") for note in testbed.notes())
    changing = ("cloud-init", "ip link set", "ethtool", "install")
    assert next(line for line in commands if line.startswith(changing)) == "cloud-init status --wait"
    without_ipv6 = {f"sysctl -q -w net/ipv6/conf/{receiver}/disable_ipv6=1" for receiver in instance.receivers}
    assert without_ipv6 | {f"nmcli device set {receiver} managed no" for receiver in instance.receivers} <= set(
        commands
    )


APT = """#!/bin/sh
echo "$*" >> calls
case "$*" in *update) [ "$(grep -c update calls)" -gt 2 ] && exit
echo "E: {message}" >&2
exit 100 ;; esac
"""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)", ["update"] * 3),
        ("The repository 'http://a' does not have a Release file.", None),
    ],
)
def test_package_lists_are_updated_once_a_running_apt_has_ended(tmp_path, message, expected):
    executable(tmp_path / "apt-get", APT.format(message=message))
    executable(tmp_path / "sleep", "#!/bin/sh\n")
    script = packages.DEFINE + "set -e\nadd_package tcpdump tcpdump\nadd_package zstd zstd\n"
    ended = run("sh", "-c", script, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    calls = [line.split()[-1] for line in (tmp_path / "calls").read_text().splitlines()]
    if expected is None:
        assert ended.returncode == 1 and message in ended.stderr and calls == ["update"]
        return
    assert ended.returncode == 0, ended
    assert calls == [*expected, "tcpdump", "zstd"]
