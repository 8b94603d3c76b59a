"""docs/hard_inputs.md: every number has its line, and every test that a line names is there, and vice versa."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "hard_inputs.md").read_text(encoding="utf-8")
# Troubles of which nothing can be shown yet.
OUT_OF_SCOPE = {39, 47}


def lines():
    """Number, text and names of tests of each line of the tables."""
    for line in PAGE.splitlines():
        if found := re.match(r"\| (\d+) \| (.*) \| (.*) \|$", line):
            yield int(found[1]), found[2], re.findall(r"`(test_\w+)`", found[3])


def numbers_of(name):
    """Of the troubles that a test is about."""
    return [int(number) for number in re.match(r"test((?:_\d\d)+)_", name)[1].split("_")[1:]]


def test_every_number_has_its_line():
    assert [number for number, _, _ in lines()] == list(range(1, 97))


def test_lines_name_all_tests_and_no_others():
    named = {(number, name) for number, _, names in lines() for name in names}
    sources = [path.read_text(encoding="utf-8") for path in sorted(HERE.glob("test_[a-i]_*.py"))]
    written = {name for source in sources for name in re.findall(r"^def (test_\d\w*)", source, re.MULTILINE)}
    assert len(sources) == 9
    assert named == {(number, name) for name in written for number in numbers_of(name)}
    files = re.findall(r"^Tests: `(\S+)`", PAGE, re.MULTILINE)
    assert files == sorted(path.name for path in HERE.glob("test_[a-i]_*.py"))


def test_lines_without_a_test_are_out_of_scope_and_say_why():
    for number, text, names in lines():
        assert bool(names) == (number not in OUT_OF_SCOPE)
        assert not names or "*out of scope" not in text
        if not names:
            assert "*out of scope for now*: " in text


def test_tests_that_are_expected_to_fail_are_limits():
    limits = {number for number, text, _ in lines() if "*Limit*: " in text}
    for path in sorted(HERE.glob("test_[a-i]_*.py")):
        for block in re.findall(r"^@pytest\.mark\.xfail\(.*?^def (test_\w+)", path.read_text("utf-8"), re.M | re.S):
            assert set(numbers_of(block)) <= limits
