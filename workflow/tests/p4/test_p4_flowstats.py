"""Control files of flowstats: invalid values are reported with their line, missing statements are added."""

import pytest
from acapella_testing.new_files import write_file

from acapella.p4 import flowstats
from acapella_core.errors import UserError

QUEUE_PAIR = "register qp_number 0 0x11\n"


def control_file(directory, text: str) -> list:
    """Write a control file; return its path in a list."""
    return [write_file(directory / "c.txt", text)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "flowstats: no queue pair, so no report would be sent"),
        ("register qp_number 0 0\n", "flowstats: no queue pair"),
        (f"{QUEUE_PAIR}register qp_mask 0 1 # two\n", "c.txt:2: qp_mask 1: no queue pair 1, "),
        (
            f"{QUEUE_PAIR}register qp_mask 0 31",
            "c.txt:2: qp_mask 31 is not a mask; use a power of two minus 1, at most 15",
        ),
        (f"{QUEUE_PAIR}\nregister cell_mask 0 100", "c.txt:3: cell_mask 100 is not a mask"),
        (f"{QUEUE_PAIR}register slot_mask 0 0xfffff", "c.txt:2: slot_mask 1048575 is not a mask"),
        (f"{QUEUE_PAIR}register rows 0 5", "c.txt:2: rows 5; from 1 to 4"),
        (f"{QUEUE_PAIR}register format 0 3", "c.txt:2: format 3; from 1 to 2"),
        (
            f"{QUEUE_PAIR}epoch 1s\nepoch-clear sketch_bytes_0 1024",
            "c.txt:3: 1024 cells of sketch_bytes_0, but its rows have",
        ),
    ],
)
def test_invalid_register_is_reported_with_its_line(tmp_path, text, message):
    with pytest.raises(UserError) as caught:
        flowstats.check_control_files(control_file(tmp_path, text), queue_pairs=True)
    assert message in str(caught.value)


def test_epoch_clears_the_whole_sketch(tmp_path):
    text = f"{QUEUE_PAIR}register cell_mask 0 1023\nepoch 1s\nepoch-clear sketch_bytes_2 1024\n"
    lines = flowstats.check_control_files(control_file(tmp_path, text), queue_pairs=True)
    names = [f"sketch_{what}_{row}" for what in ("bytes", "packets") for row in range(4)]
    assert lines == [f"epoch-clear {name} 1024" for name in names if name != "sketch_bytes_2"]


def test_queue_pairs_are_optional_if_others_set_them_up(tmp_path):
    paths = [*control_file(tmp_path, "register rows\nregister qp_number 0 many\n"), tmp_path / "none.txt"]
    assert flowstats.check_control_files(paths, queue_pairs=False) == [], "the loader reports unreadable files"
    paths = control_file(tmp_path, "register qp_number 0 1 2\nregister qp_mask 0 1")
    assert flowstats.check_control_files(paths, queue_pairs=True) == []
