"""The options of a fit are named in one place."""

import inspect
from dataclasses import fields

import pytest

import amofa
from amofa._search.options import SEARCHES, FitOptions


def test_fit_has_the_options_in_their_order_with_their_defaults():
    arguments = list(inspect.signature(amofa.fit).parameters.values())
    assert [argument.name for argument in arguments[:2]] == ["X", "sample_weight"]
    given = {argument.name: argument.default for argument in arguments[2:]}
    assert list(given.items()) == [(option.name, option.default) for option in fields(FitOptions)]


def test_options_that_do_not_decide_are_those_that_control_the_run():
    control = {option.name for option in fields(FitOptions)} - set(FitOptions().deciding())
    assert control == {*("callback", "on_iteration", "progress", "on_interrupt", "max_time", "checkpoint", "n_threads")}


@pytest.mark.parametrize("search", SEARCHES)
def test_checked_options_are_options(search):
    checked = FitOptions(search=search).checked(3)
    assert checked.checked(3) == checked
