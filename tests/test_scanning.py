"""amofa.scan: a table of costs and models, one row for each kind of noise and number of components."""

import pickle

import datasets
import numpy as np
import pytest

import amofa
from amofa import scanning

NO_FACTORS = {"max_factors": 0, "noise": "component"}


@pytest.fixture
def rows(rng):
    """Two groups far apart and a third one near the second, (120, 2)."""
    centres = np.repeat([[0, 0], [12, 0], [12, 5]], 40, axis=0)
    return centres + rng.normal(size=(120, 2))


@pytest.fixture
def fits(monkeypatch):
    """The options of every fit that a scan makes, and a function that makes the fit number i end in an exception."""
    made, ends = [], {}
    fit_checked = scanning.fit_checked

    def fit(table, weights, options, names, **others):
        made.append(options)
        if len(made) - 1 in ends:
            raise ends[len(made) - 1]
        return fit_checked(table, weights, options, names, **others)

    monkeypatch.setattr(scanning, "fit_checked", fit)
    return made, ends.__setitem__


def summary_of(scan):
    return [(row.noise, row.n_components) for row in scan]


# ---- the table -------------------------------------------------------------------------------------------------------


def test_rows_are_no_dearer_than_fits(rows):
    scan = amofa.scan(rows, range(1, 4))
    assert summary_of(scan) == [(noise, K) for noise in ("component", "shared") for K in range(1, 4)]
    assert len(scan) == 6
    assert scan.criterion == "evidence"
    for row in scan:
        assert row.model.n_components == row.n_components
        assert row.model.converged
        assert (row.cost, row.bic, row.icl) == (row.model.cost, row.model.bic(rows), row.model.icl(rows))
        assert row.cost <= amofa.fit(rows, n_components=row.n_components, noise=row.noise).cost + 0.01
    assert scan.best.cost == min(row.cost for row in scan) <= amofa.fit(rows).cost + 1e-4
    assert scan.best.n_components == 3


def test_numbers_and_kinds_of_noise_that_are_given(rows):
    assert summary_of(amofa.scan(rows, (3, 1), noise="isotropic")) == [("isotropic", 1), ("isotropic", 3)]
    scan = amofa.scan(rows, np.array([2]), noise=["shared", "auto"], max_factors=0)
    assert summary_of(scan) == [("shared", 2), ("component", 2)]
    assert summary_of(amofa.scan(rows, [2], search="paper")) == [("component", 2)]


def test_options_of_fit(rows):
    scan = amofa.scan(rows, iter([1, 2]), noise="component", criterion="bic", prior_rows=0, n_factors=1)
    assert scan.criterion == "bic"
    for row in scan:
        assert row.cost == pytest.approx(row.bic / 2, rel=1e-9)
        assert set(row.model.n_factors) == {1}


def test_weights_count_like_repeated_rows(rows, rng):
    weights = rng.integers(0, 3, len(rows))
    weighted = amofa.scan(rows, [1, 2], sample_weight=weights, **NO_FACTORS)
    repeated = amofa.scan(np.repeat(rows, weights, axis=0), [1, 2], **NO_FACTORS)
    for name in ("cost", "bic", "icl"):
        np.testing.assert_allclose(weighted.to_dict()[name], repeated.to_dict()[name], rtol=1e-12)


def test_the_number_of_threads_changes_nothing(rows):
    one, two = (amofa.scan(rows, [1, 2, 3], n_threads=n, **NO_FACTORS) for n in (1, 2))
    assert [row[:5] for row in one] == [row[:5] for row in two]


def test_text(rows):
    scan = amofa.scan(rows, [1, 2], **NO_FACTORS)
    lines = str(scan).splitlines()
    assert lines[0] == "scan of 2 models by evidence (costs in nats; * is the cheapest)"
    assert lines[1].split() == ["n_components", "noise", "cost", "BIC", "ICL"]
    for line, row, mark in zip(lines[2:], scan, ([], ["*"]), strict=True):
        figures = [f"{value:.2f}" for value in (row.cost, row.bic, row.icl)]
        assert line.split() == [str(row.n_components), "component", *mark, *figures]
    assert len({len(line) for line in lines[1:]}) == 1
    assert repr(scan) == str(scan) == str(pickle.loads(pickle.dumps(scan)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library, rows):
    frames = pytest.importorskip(library)
    scan = amofa.scan(frames.DataFrame({"a": rows[:, 0], "b": rows[:, 1]}), [1, 2], **NO_FACTORS)
    assert scan.best.feature_names == ("a", "b")
    frame = frames.DataFrame(scan.to_dict())
    assert list(frame.columns) == ["n_components", "noise", "cost", "bic", "icl", "model"]
    assert frame["n_components"].to_list() == [1, 2]
    assert frame["noise"].to_list() == ["component", "component"]
    assert frame["cost"].to_list() == [row.cost for row in scan]
    assert frame["model"][1] is scan.best


# ---- fits ------------------------------------------------------------------------------------------------------------


def test_models_start_from_their_neighbours(rows, fits):
    amofa.scan(rows, [1, 2, 4], max_factors=0)
    made = [(f.noise, f.n_components, f.max_components, f.init and f.init.n_components) for f in fits[0]]
    assert made[:3] == [(noise, None, 4, None) for noise in ("auto", "component", "shared")]
    alone = [("component", K, None, None) for K in (1, 2, 4)]
    near = [("component", *step) for step in [(2, None, 1), (4, None, 2), (2, None, 4), (1, None, 2)]]
    assert made[3:10] == alone + near
    shared = [entry for entry in made[10:] if entry[0] == "shared"]
    assert shared[:6] == [("shared", K, None, init) for K in (1, 2, 4) for init in (None, K)]
    # A neighbour that has not changed is not used again.
    inits = [(f.noise, f.n_components, id(f.init)) for f in fits[0] if f.init is not None]
    assert len(inits) == len(set(inits))


@pytest.mark.parametrize(
    ("numbers", "found", "missing"),
    [
        (range(1, 6), [1, 2, 3], "4, 5"),
        ([2, 5], [2, 3], "5"),
        ([5], [3], "5"),
        (range(3, 20), [3], "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, ..."),
    ],
)
def test_numbers_that_cannot_be_reached(numbers, found, missing):
    X = np.repeat([[0.0, 0.0], [1.0, 5.0], [9.0, 2.0]], 20, axis=0)
    with pytest.warns(amofa.AmofaWarning) as warned:
        scan = amofa.scan(X, numbers, **NO_FACTORS)
    assert [row.n_components for row in scan] == found
    (message,) = [str(w.message) for w in warned if w.category is amofa.AmofaWarning]
    assert message == (
        f"too few components can be told apart for {missing} with noise='component': the scan has no such rows"
    )
    assert warned[0].filename == __file__


def test_rows_that_are_all_the_same():
    with pytest.warns(amofa.AmofaWarning) as warned:
        scan = amofa.scan(np.ones((12, 2)), [1, 2])
    assert [(row.noise, row.n_components) for row in scan] == [("component", 1), ("shared", 1)]
    assert np.isnan([row.cost for row in scan]).all()
    assert np.isfinite([row.bic for row in scan]).all()
    assert [str(w.message).partition(":")[0] for w in warned] == [
        "2 of 2 columns of X are constant and change no decision",
        "too few components can be told apart for 2 with noise='component' and 2 with noise='shared'",
    ]


def test_what_a_fit_warns_of_is_said_once(rng):
    X, _ = datasets.gaussians(rng, [300, 100], [(0.0, 0.0), (1.5, 1.5)], [np.eye(2)] * 2)
    table = np.column_stack([X, np.ones(len(X))])
    with pytest.warns(amofa.AmofaWarning) as warned:
        amofa.scan(table, [1, 2], max_iter=1, tol=1e-13, n_factors=0)
    constant, unconverged = [str(w.message) for w in warned]
    assert constant == "1 of 3 columns of X are constant and change no decision: 2 (from 0)"
    assert unconverged.startswith("EM of the chosen model did not converge within 20 x max_iter=1 iterations")


def test_progress_is_for_terminals(rows, capfd):
    amofa.scan(rows, [1], progress=True, **NO_FACTORS)
    assert capfd.readouterr() == ("", "")


# ---- interrupts and time ---------------------------------------------------------------------------------------------


def test_an_interrupt_loses_no_model(rows, fits):
    fits[1](2, KeyboardInterrupt())
    with pytest.raises(amofa.ScanInterrupted, match="the attribute scan has the models so far") as interrupted:
        amofa.scan(rows, [1, 3], **NO_FACTORS)
    assert isinstance(interrupted.value, amofa.FitInterrupted)
    assert [row.n_components for row in interrupted.value.scan] == [1, 3]
    assert interrupted.value.model is interrupted.value.scan.best
    assert len(fits[0]) == 3


def test_an_interrupted_scan_can_be_returned_and_has_the_model_of_an_interrupted_fit(rows, fits):
    model = amofa.fit(rows, n_components=2, **NO_FACTORS)
    fits[1](0, amofa.FitInterrupted(model))
    with pytest.warns(amofa.AmofaWarning, match="the scan was interrupted; it has the models so far"):
        scan = amofa.scan(rows, [1, 3], on_interrupt="return", **NO_FACTORS)
    assert scan.best is model
    assert len(scan) == 1


def test_an_interrupt_before_the_first_model(rows, fits):
    fits[1](0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as interrupt:
        amofa.scan(rows, on_interrupt="return")
    assert not isinstance(interrupt.value, amofa.FitInterrupted)


def test_a_scan_ends_in_time(rows, fits):
    with pytest.warns(amofa.AmofaWarning, match=r"the scan had not ended after max_time=1e-09 s; it has the models"):
        scan = amofa.scan(rows, [1, 2, 3], max_time=1e-9)
    assert len(scan) == len(fits[0]) == 1
    assert len(amofa.scan(rows, [1, 2], max_time=1e6, **NO_FACTORS)) == 2


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_components": 3}, TypeError, r"n_components must be several whole numbers, such as range\(1, 11\), got 3"),
        ({"n_components": "12"}, TypeError, "n_components must be several whole numbers"),
        ({"n_components": [1, 0]}, ValueError, "each of n_components must be at least 1, got 0"),
        ({"n_components": [1, True]}, TypeError, "each of n_components must be a whole number, got True"),
        ({"n_components": [1.0]}, TypeError, "each of n_components must be a whole number, got 1.0"),
        ({"n_components": []}, ValueError, "n_components is empty; give at least one number"),
        ({"n_components": [2, 1, 2]}, ValueError, "n_components has 2 more than once; give each number once"),
        ({"n_components": [1, 121]}, ValueError, "n_components goes up to 121, but X has 120 rows; give no more"),
        ({"noise": "none"}, ValueError, "noise must be one of"),
        ({"noise": ["shared", 3]}, ValueError, "noise must be one of .*, got 3"),
        ({"noise": ()}, ValueError, "noise is empty; give at least one kind, or leave it out"),
        ({"noise": "shared", "search": "paper"}, ValueError, "noise='shared' needs search='thorough'"),
        ({"init": [0]}, TypeError, "scan has no option 'init'; those of fit that it has are n_factors, max_factors, "),
        ({"n_factors": [1, 2]}, ValueError, "n_factors must be one number in a scan"),
        ({"max_factors": -1}, ValueError, "max_factors must be at least 0, got -1"),
        ({"tol": 0}, ValueError, "tol must be positive"),
        ({"sample_weight": [1, 2]}, ValueError, "sample_weight"),
    ],
)
def test_arguments_that_cannot_be_used(rows, fits, arguments, error, message):
    with pytest.raises(error, match=message):
        amofa.scan(rows, **arguments)
    assert fits[0] == []


def test_a_row_without_weight_does_not_count(rows):
    with pytest.raises(ValueError, match="n_components goes up to 10, but X has 3 rows"):
        amofa.scan(rows, sample_weight=np.arange(120) < 3)
