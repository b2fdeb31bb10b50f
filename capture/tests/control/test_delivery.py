"""What a P4 program did not send on is told by the names that stand beside the program."""

from acapella_capture.control.delivery import name_reasons


def test_reasons_have_the_names_of_the_programs_sidecar(tmp_path):
    (tmp_path / "p.json").write_text('{"reasons": {"1": "filtered", "3": "flow-sampled"}}')
    told = {"reason-1": 140, "reason-9": 2, "no-arp": 5}
    assert name_reasons(told, tmp_path / "p.spec") == {"filtered": 140, "reason-9": 2, "no-arp": 5}


def test_without_a_sidecar_they_stay_numbers(tmp_path):
    assert name_reasons({"reason-1": 1}, tmp_path / "p.spec") == {"reason-1": 1}
    (tmp_path / "p.json").write_text("[]")
    assert name_reasons({"reason-1": 1}, tmp_path / "p.spec") == {"reason-1": 1}
