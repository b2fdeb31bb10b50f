"""Parts of testbed `fabric` that do not need FABRIC's client: credentials, agent, transfer."""

import ast
import contextlib
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from acapella_testing.new_files import write_file

from acapella_capture.testbeds.fabric import agent, credentials, transfer
from acapella_capture.testbeds.fabric.transfer import Transfer
from acapella_core.errors import UserError

SECRET = "NB2HI4DTHIXS6secret"
FABRIC_RC = """# made by FABRIC
export FABRIC_PROJECT_ID='p-1'
 export FABRIC_BASTION_USERNAME=me_0
export FABRIC_SLICE_PRIVATE_KEY_FILE="${HOME}/keys/slice"
export FABRIC_LOG_LEVEL=INFO
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_credentials_of_a_jupyterhub_are_found(home):
    rc = write_file(home / "work" / "fabric_config" / "fabric_rc", FABRIC_RC)
    found = credentials.find(environment={"HOME": str(home), "FABRIC_PROJECT_ID": "other", "FABRIC_BASTION_HOST": "b"})
    assert found.rc == rc
    # fabric_rc takes precedence over the environment
    assert (found.values["project_id"], found.values["bastion_host"]) == ("p-1", "b")
    assert found.path("slice_private_key_file") == home / "keys" / "slice"
    assert found.path("bastion_key_location") == rc.with_name("fabric_bastion_key")
    assert found.tokens == home / ".tokens.json"
    assert [line.split("(")[-1] for line in found.missing()] == [
        "token_location)", "bastion_key_location)", "slice_private_key_file)", "slice_public_key_file)",
    ]  # fmt: skip


def test_fabric_rc_in_yaml_is_read(home):
    (home / "rc.yml").write_text("runtime:\n  project_id: p-2\n  bastion_username: 'me'\nlogging:\n  level: x\n")
    found = credentials.find(str(home / "rc.yml"), {"HOME": str(home)})
    assert (found.values["project_id"], found.values["bastion_username"]) == ("p-2", "me")


def test_missing_fabric_rc_named_in_the_config_is_an_error(home):
    with pytest.raises(UserError, match=r"nowhere/fabric_rc: no such file"):
        credentials.find(str(home / "nowhere" / "fabric_rc"), {})


def test_missing_credentials_are_named_in_one_line(home):
    with pytest.raises(UserError, match=r"no project_id: export FABRIC_PROJECT_ID=.*and 5 more") as raised:
        credentials.find(environment={}).check()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [None, "not JSON", "[]", "[" * 100_000, '{"refresh_token": null}'],
    ids=["missing", "text", "list", "nested", "no token"],
)
def test_unreadable_tokens_are_an_error_and_leave_no_lock(home, text):
    found = credentials.find(environment={})
    if text is not None:
        found.tokens.write_text(text)
    with pytest.raises(UserError, match=r"cm\.fabric-testbed\.net"):
        credentials.id_token(found, lambda _: {})
    assert text is not None or not list(home.iterdir())


@pytest.mark.parametrize(
    ("error", "shown"), [(RuntimeError(f"refused {SECRET}"), r"refused \(token\)"), (TimeoutError(), "TimeoutError")]
)
def test_token_refresh_error_is_reported_without_the_token(home, error, shown):
    found = credentials.find(environment={})
    found.tokens.write_text(json.dumps({"refresh_token": SECRET}))
    with pytest.raises(UserError, match=f"could not be refreshed: {shown}") as raised:
        credentials.id_token(found, Mock(side_effect=error))
    assert SECRET not in str(raised.value)


def test_agent_is_valid_python_3_6():
    ast.parse(inspect.getsource(agent), feature_version=(3, 6))


class Node:
    """The agent of a node in a local directory, with downloads that damage parts."""

    damaged = 0  # number of the next downloads to damage

    def __init__(self, directory):
        self.directory = directory

    def call(self, _node, command, *, duration_s=0, **given):
        agent.DIRECTORY = self.directory
        reply = getattr(agent, command)(**given)
        assert "error" not in reply, reply
        return reply

    def download(self, _node, path, length):
        data = (self.directory / path).read_bytes()[:length]
        self.damaged -= 1
        return data[:-1] + b"!" if self.damaged >= 0 else data


@pytest.fixture
def node(tmp_path, monkeypatch) -> Node:
    """Provide a node with a file of 250 bytes."""
    write_file(tmp_path / "node" / "a.pcap", bytes(range(250)))
    monkeypatch.setattr(agent, "DIRECTORY", None, raising=False)
    return Node(tmp_path / "node")


def fetch(node: Node, target: Path) -> None:
    Transfer(node, node.download, 100).fetch("n", "a.pcap", target)


def test_damaged_part_is_fetched_again_and_never_kept(tmp_path, node):
    target = tmp_path / "raw" / "a.pcap"
    node.damaged = 2
    with pytest.raises(UserError, match=r"part 1 of a\.pcap could not be transferred: wrong checksum"):
        fetch(node, target)
    assert not target.exists()
    node.damaged = 1
    fetch(node, target)
    assert target.read_bytes() == bytes(range(250))
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["a.pcap"]


def test_lost_connection_is_an_error_of_the_reader_only():
    """Paramiko requests blocks in a thread, from which Python would print a traceback."""

    class Stream:
        _prefetch_thread = Mock(side_effect=OSError("Socket is closed"))
        read = Mock(side_effect=EOFError)

        def prefetch(self, _length):
            self._prefetch_thread([], None)

    sftp = contextlib.nullcontext(SimpleNamespace(open=lambda *_: contextlib.nullcontext(Stream())))
    node = Mock(**{"_get_ssh_connection.return_value": (None, SimpleNamespace(open_sftp=lambda: sftp))})
    with pytest.raises(EOFError):
        transfer.read_part(node, "a.pcap", 10)
    node.close_ssh.assert_called_once_with()


def test_file_that_changes_during_the_transfer_is_rejected(tmp_path, node, monkeypatch):
    """Each part matches its checksum, but the whole file does not."""
    call, wrong = node.call, {"checksums": {"sha256": "0" * 64}}
    monkeypatch.setattr(node, "call", lambda *words, **given: call(*words, **given) | wrong.get(words[1], {}))
    with pytest.raises(UserError, match="was transferred with a wrong checksum"):
        fetch(node, tmp_path / "a.pcap")
    assert not (tmp_path / "a.pcap").exists()


def test_number_of_checksums_must_match_the_file_size(tmp_path, node, monkeypatch):
    monkeypatch.setattr(agent, "checksums", lambda **_: {"size": 10**18, "sha256": "", "checksums": ["", ""]})
    with pytest.raises(UserError, match=r"node n: 2 checksums of a\.pcap, which has 1000000000000000000 bytes"):
        fetch(node, tmp_path / "raw" / "a.pcap")
    assert not (tmp_path / "raw" / "a.pcap").exists()


def test_file_that_does_not_fit_is_not_fetched(tmp_path, node, monkeypatch):
    monkeypatch.setattr(transfer, "RESERVE_MB", 10**12)
    target = tmp_path / "raw" / "a.pcap"
    with pytest.raises(UserError, match=r"a\.pcap: needs 0 MB, \d+ MB is free, of which 1000000000000 MB is reserved"):
        fetch(node, target)
    assert [path.stat().st_size for path in target.parent.iterdir()] == [0]  # only the empty .a.pcap.partial
