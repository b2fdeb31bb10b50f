"""Parts of testbed `fabric` that do not need FABRIC's client: credentials, agent, transfer."""

import ast
import contextlib
import inspect
import json
from types import SimpleNamespace

import pytest
from acapella_testing.new_files import new_directory, write_file

from acapella_capture.testbeds.fabric import agent, credentials, transfer
from acapella_capture.testbeds.fabric.transfer import Transfer
from acapella_core.errors import UserError


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_credentials_of_a_jupyterhub_are_found(home):
    directory = new_directory(home / "work" / "fabric_config")
    (directory / "fabric_rc").write_text(
        "# made by FABRIC\nexport FABRIC_PROJECT_ID='p-1'\n export FABRIC_BASTION_USERNAME=me_0\n"
        'export FABRIC_SLICE_PRIVATE_KEY_FILE="${HOME}/keys/slice"\nexport FABRIC_LOG_LEVEL=INFO\n'
    )
    found = credentials.find(environment={"HOME": str(home), "FABRIC_PROJECT_ID": "other", "FABRIC_BASTION_HOST": "b"})
    assert found.rc == directory / "fabric_rc"
    assert (found.values["project_id"], found.values["bastion_host"]) == (
        "p-1",
        "b",
    )  # fabric_rc takes precedence over the environment
    assert found.path("slice_private_key_file") == home / "keys" / "slice"
    assert found.path("bastion_key_location") == directory / "fabric_bastion_key"
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


def test_unreadable_tokens_are_an_error_and_leave_no_lock(home):
    found = credentials.find(environment={})
    for text in (None, "not JSON", "[]", "[" * 100_000, json.dumps({"refresh_token": None})):
        if text is not None:
            found.tokens.write_text(text)
        with pytest.raises(UserError, match=r"cm\.fabric-testbed\.net"):
            credentials.id_token(found, lambda _: {})
        assert text is not None or not list(home.iterdir())


def test_error_of_a_token_refresh_does_not_contain_the_token(home):
    found = credentials.find(environment={})
    found.tokens.write_text(json.dumps({"refresh_token": "NB2HI4DTHIXS6secret"}))

    def fails(token):
        raise RuntimeError(f"refused {token}")

    with pytest.raises(UserError, match=r"could not be refreshed: refused \(token\)"):
        credentials.id_token(found, fails)


def test_error_of_a_token_refresh_without_a_text_is_named(home):
    found = credentials.find(environment={})
    found.tokens.write_text(json.dumps({"refresh_token": "r"}))

    def fails(_token):
        raise TimeoutError

    with pytest.raises(UserError, match="could not be refreshed: TimeoutError"):
        credentials.id_token(found, fails)


def test_agent_is_valid_python_3_6():
    ast.parse(inspect.getsource(agent), feature_version=(3, 6))


class Node:
    """The agent of a node in a local directory, with downloads that damage parts."""

    def __init__(self, directory, damaged: int):
        self.directory = directory
        self.damaged = damaged  # number of the next downloads to damage

    def call(self, _node, command, *, duration_s=0, **given):
        agent.DIRECTORY = self.directory
        reply = getattr(agent, command)(**given)
        assert "error" not in reply, reply
        return reply

    def download(self, _node, path, length):
        data = (self.directory / path).read_bytes()[:length]
        self.damaged -= 1
        return data[:-1] + b"!" if self.damaged >= 0 else data


@pytest.mark.parametrize(("damaged", "arrives"), [(1, True), (2, False)])
def test_damaged_part_is_fetched_again_and_never_kept(tmp_path, monkeypatch, damaged, arrives):
    write_file(tmp_path / "node" / "a.pcap", bytes(range(250)))
    monkeypatch.setattr(agent, "DIRECTORY", None, raising=False)
    node, target = Node(tmp_path / "node", damaged), tmp_path / "raw" / "a.pcap"
    transfer = Transfer(node, node.download, 100)
    if arrives:
        transfer.fetch("n", "a.pcap", target)
        assert target.read_bytes() == bytes(range(250))
    else:
        with pytest.raises(UserError, match=r"part 1 of a\.pcap could not be transferred: wrong checksum"):
            transfer.fetch("n", "a.pcap", target)
        assert not target.exists()
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["a.pcap"]


def test_lost_connection_is_an_error_of_the_reader_only():
    """Paramiko requests blocks in a thread, from which Python would print a traceback."""

    class Stream:
        def prefetch(self, _length):
            self._prefetch_thread([], None)

        def _prefetch_thread(self, _chunks, _most):
            raise OSError("Socket is closed")

        def read(self, _length):
            raise EOFError

    sftp = contextlib.nullcontext(SimpleNamespace(open=lambda *_: contextlib.nullcontext(Stream())))
    client, closed = SimpleNamespace(open_sftp=lambda: sftp), []
    node = SimpleNamespace(_get_ssh_connection=lambda: (None, client), close_ssh=lambda: closed.append(True))
    with pytest.raises(EOFError):
        transfer.read_part(node, "a.pcap", 10)
    assert closed == [True]


def test_file_that_changes_during_the_transfer_is_rejected(tmp_path, monkeypatch):
    """Each part matches its checksum, but the whole file does not."""
    write_file(tmp_path / "node" / "a.pcap", bytes(250))
    monkeypatch.setattr(agent, "DIRECTORY", None, raising=False)
    node, call = Node(tmp_path / "node", 0), Node.call
    wrong = {"checksums": {"sha256": "0" * 64}}
    monkeypatch.setattr(Node, "call", lambda *words, **given: call(*words, **given) | wrong.get(words[2], {}))
    with pytest.raises(UserError, match="was transferred with a wrong checksum"):
        Transfer(node, node.download, 100).fetch("n", "a.pcap", tmp_path / "a.pcap")
    assert not (tmp_path / "a.pcap").exists()


def test_number_of_checksums_has_to_match_the_size_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(agent, "DIRECTORY", None, raising=False)
    monkeypatch.setattr(agent, "checksums", lambda **_: {"size": 10**18, "sha256": "", "checksums": ["", ""]})
    node = Node(tmp_path, 0)
    with pytest.raises(UserError, match=r"node n: 2 checksums of a\.pcap, which has 1000000000000000000 bytes"):
        Transfer(node, node.download, 100).fetch("n", "a.pcap", tmp_path / "raw" / "a.pcap")


def test_file_that_does_not_fit_is_not_fetched(tmp_path, monkeypatch):
    write_file(tmp_path / "node" / "a.pcap", bytes(250))
    monkeypatch.setattr(agent, "DIRECTORY", None, raising=False)
    monkeypatch.setattr(transfer, "RESERVE_MB", 10**12)
    node, target = Node(tmp_path / "node", 0), tmp_path / "raw" / "a.pcap"
    with pytest.raises(UserError, match=r"a\.pcap: needs 0 MB, \d+ MB is free, of which 1000000000000 MB is reserved"):
        Transfer(node, node.download, 100).fetch("n", "a.pcap", target)
    assert [path.stat().st_size for path in target.parent.iterdir()] == [0]  # only the empty .a.pcap.partial
