"""Control files of flowstats: what would spoil its numbers is refused with its line, what they leave out is added."""

import pytest

from acapella.p4 import flowstats
from acapella_core.errors import UserError

PAIR = "register qp_number 0 0x11\n"


def written(directory, text: str) -> list:
    """A control file."""
    (directory / "c.txt").write_text(text)
    return [directory / "c.txt"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "flowstats: no queue pair, so that no report would be sent"),
        ("register qp_number 0 0\n", "flowstats: no queue pair"),
        (f"{PAIR}register qp_mask 0 1 # two\n", "c.txt:2: qp_mask 1: no queue pair 1, "),
        (f"{PAIR}register qp_mask 0 31", "c.txt:2: qp_mask 31 is no mask; a power of two less 1, at most 15"),
        (f"{PAIR}\nregister cell_mask 0 100", "c.txt:3: cell_mask 100 is no mask"),
        (f"{PAIR}register slot_mask 0 0xfffff", "c.txt:2: slot_mask 1048575 is no mask"),
        (f"{PAIR}register rows 0 5", "c.txt:2: rows 5; from 1 to 4"),
        (f"{PAIR}register format 0 3", "c.txt:2: format 3; from 1 to 2"),
        (f"{PAIR}epoch 1s\nepoch-clear sketch_bytes_0 1024", "c.txt:3: 1024 cells of sketch_bytes_0, whose rows have"),
    ],
)
def test_what_would_spoil_the_numbers_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(UserError) as caught:
        flowstats.prepared(written(tmp_path, text), queue_pairs=True)
    assert said in str(caught.value)


def test_an_epoch_clears_the_whole_sketch(tmp_path):
    text = f"{PAIR}register cell_mask 0 1023\nepoch 1s\nepoch-clear sketch_bytes_2 1024\n"
    lines = flowstats.prepared(written(tmp_path, text), queue_pairs=True)
    names = [f"sketch_{what}_{row}" for what in ("bytes", "packets") for row in range(4)]
    assert lines == [f"epoch-clear {name} 1024" for name in names if name != "sketch_bytes_2"]


def test_what_others_set_up_is_not_asked_for(tmp_path):
    paths = [*written(tmp_path, "register rows\nregister qp_number 0 many\n"), tmp_path / "none.txt"]
    assert flowstats.prepared(paths, queue_pairs=False) == [], "what cannot be read is the loader's to say"
    assert (
        flowstats.prepared(written(tmp_path, "register qp_number 0 1 2\nregister qp_mask 0 1"), queue_pairs=True) == []
    )
