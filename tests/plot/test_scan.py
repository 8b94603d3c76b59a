"""The picture of a scan."""

import pytest
from plot_helpers import Mixture, assert_legend_is_outside, plt, rendered

import amofa.plot
from amofa._model.scan_table import Scan, ScanRow

MODEL = Mixture([1.0], [[0.0]], [[[1.0]]], [[1.0]])
SCAN = Scan(
    (
        ScanRow(1, "component", 30.0, 70.0, 75.0, MODEL),
        ScanRow(2, "component", 22.0, 50.0, 65.0, MODEL),
        ScanRow(4, "component", 25.0, 52.0, 60.0, MODEL),
        ScanRow(1, "shared", 30.0, 69.0, 74.0, MODEL),
        ScanRow(2, "shared", 23.0, 48.0, 66.0, MODEL),
    ),
    "evidence",
)


@pytest.mark.parametrize(
    ("criterion", "label", "component", "shared", "best"),
    [
        ("cost", "cost (evidence), nats", [30, 22, 25], [30, 23], (2, 22)),
        ("bic", "BIC", [70, 50, 52], [69, 48], (2, 48)),
        ("icl", "ICL", [75, 65, 60], [74, 66], (4, 60)),
    ],
)
def test_a_line_for_each_kind_of_noise_and_a_ring(criterion, label, component, shared, best):
    figure, given = plt.subplots()
    ax = amofa.plot.scan(SCAN, criterion=criterion, ax=given)
    assert ax is given
    first, second, ring = ax.get_lines()
    assert [line.get_label() for line in (first, second, ring)] == ["component", "shared", "lowest"]
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([1, 2, 4], component)
    assert (list(second.get_xdata()), list(second.get_ydata())) == ([1, 2], shared)
    assert (*ring.get_xdata(), *ring.get_ydata()) == best
    assert ax.get_ylabel() == label
    plt.close(figure)


def test_it_can_be_seen():
    ax = amofa.plot.scan(SCAN)
    rendered(ax)
    assert_legend_is_outside(ax)


@pytest.mark.parametrize(
    ("scan", "options", "error", "message"),
    [
        ([1, 2], {}, TypeError, "scan must be the result of amofa.scan, got list"),
        (SCAN, {"criterion": "aic"}, ValueError, "criterion must be one of 'cost', 'bic', 'icl', got 'aic'"),
        (SCAN, {"ax": 3}, TypeError, "ax must be matplotlib axes, got int"),
    ],
)
def test_what_cannot_be_drawn(scan, options, error, message):
    with pytest.raises(error, match=message):
        amofa.plot.scan(scan, **options)
