"""Names of the reasons for which a P4 program did not send frames."""

from acapella_capture.control.delivery import name_reasons


def test_reasons_are_named_by_the_json_file_of_the_program(tmp_path):
    (tmp_path / "p.json").write_text('{"reasons": {"1": "filtered", "3": "flow-sampled"}}')
    reported = {"reason-1": 140, "reason-9": 2, "no-arp": 5}
    assert name_reasons(reported, tmp_path / "p.spec") == {"filtered": 140, "reason-9": 2, "no-arp": 5}


def test_reasons_remain_numbers_without_the_json_file(tmp_path):
    assert name_reasons({"reason-1": 1}, tmp_path / "p.spec") == {"reason-1": 1}
    (tmp_path / "p.json").write_text("[]")
    assert name_reasons({"reason-1": 1}, tmp_path / "p.spec") == {"reason-1": 1}
