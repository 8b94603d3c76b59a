"""Fuzz target: models from arrays of any kind, their methods, and short fits, with arguments of any kind (see fuzz.py).

Either a result of the right form comes out, or TypeError, ValueError or IndexError with a message of this package; a
model's parameters do not change, and a pickle gives the same model.
"""

import contextlib
import copy
import pickle
import warnings

import fuzz_files
import numpy as np
from fuzz_files import pick
from hypothesis import strategies as st
from reference import random_mixture

import amofa

REFUSALS = (TypeError, ValueError, IndexError, FloatingPointError, OSError)


@contextlib.contextmanager
def refusals(kinds):
    """Errors that may be, with something to say. (AssertionError is none of them.)"""
    message = "-"
    try:
        yield
    except RuntimeError as error:  # of Strange, which is the caller's own
        message = str(error) if "no array after all" in str(error) else ""
    except kinds as error:
        message = str(error)
    assert message


# ---- arrays that are none --------------------------------------------------------------------------------------------


class Strange:
    """Says that it is an array, and is none."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array after all")


def structured():
    return np.zeros(3, dtype=[("a", "f8"), ("b", "f8")])


def misaligned():
    return np.frombuffer(bytearray(49), np.float64, 6, 1).reshape(3, 2)


ODD_VALUES = (
    None, True, 0, 1, -1, 0.5, np.nan, np.inf, 10**400, 1j, "", "a", b"a", (), [], {}, {"a": [1.0]}, [[]], [[], []],
    [[1.0], [1.0, 2.0]], [[None, 1.0]], [["1", "2"]], [[10**400, 1.0]], [[1j, 0.0]], [[np.nan, 1.0]], [[np.inf, 1.0]],
    object, print, iter([1.0]), {1.0, 2.0}, range(3), np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2, 2)),
    np.zeros(()), np.array([[object()]]), np.array(["2020-01-01"], dtype="M8[D]"),
    np.ma.masked_array([[1.0, 2.0]], [[1, 0]]), np.ones((1, 2)).view(np.matrix), np.float32(1.0),
    np.full((2, 2), 1e308), np.full((2, 2), 5e-324), np.ones((3, 2), ">f4"),
    np.ones((3, 2), np.longdouble) * np.longdouble("1e400"), memoryview(b"abcd"), slice(1), Ellipsis, -(2**63), 2**63,
    2**64, [[2**63, 2**64]], Strange(), structured(), misaligned(), np.ones((2, 2), "?"),
    np.array([[1, 2]], dtype=object),
)  # fmt: skip


def numbers(shape):
    """An array of numbers, most of them ordinary."""
    return st.builds(
        lambda seed, scale, value, at: with_value(normal(seed, shape) * scale, value, at),
        st.integers(0, 99), pick([1.0, 1.0, 1.0, 1e-150, 1e150, 1e300]),
        pick([None, None, None, np.nan, np.inf, 0.0, -0.0, 5e-324, -1.0, 1e308]), st.integers(0, 99),
    )  # fmt: skip


def normal(seed, shape):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape))


def with_value(array, value, at):
    if value is not None and array.size:
        array.flat[at % array.size] = value
    return array


FORMS = (
    lambda a: a, lambda a: a.tolist(), lambda a: a.astype(np.float32), lambda a: a.astype(object), np.asfortranarray,
    lambda a: a.T, lambda a: a[..., None], lambda a: a[:0], lambda a: a.ravel(), lambda a: a[::-1], np.abs,
    lambda a: [*a], lambda a: a.astype(">f8"), lambda a: np.round(a), lambda a: iter(a), lambda a: a.astype(str),
    lambda a: a.astype(complex),
)  # fmt: skip


def in_form(array, form):
    with np.errstate(all="ignore"):
        return form(array)


odd = pick(ODD_VALUES)
tables = st.one_of(
    *[st.builds(in_form, numbers((n, d)), pick(FORMS + FORMS[:1] * 20)) for n, d in ((3, 2), (3, 2), (1, 2), (4, 3))],
    odd,
)
row_weights = st.one_of(st.none(), numbers((3,)).map(np.abs), numbers((3,)), odd)


# ---- models ----------------------------------------------------------------------------------------------------------

weights = st.one_of(
    pick([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0], [0.0, 0.0], [1.0], [0.5, 0.5 + 1e-7]]), numbers((2,)), odd
)
means = st.one_of(st.builds(in_form, numbers((2, 2)), pick(FORMS)), odd)
uniquenesses = st.one_of(
    st.just(np.ones((2, 2))), st.builds(in_form, numbers((2, 2)).map(np.abs), pick(FORMS)), numbers((2, 2)), odd
)
loadings = st.one_of(
    st.lists(
        st.builds(in_form, pick([(2, 1), (2, 0), (2, 5), (2, 2), (1, 2)]).flatmap(numbers), pick(FORMS)), max_size=3
    ),
    st.just([np.zeros((2, 0))] * 2), odd, st.lists(odd, min_size=2, max_size=2),
)  # fmt: skip
names = st.one_of(st.none(), pick([["a", "b"], ["a"], "ab", ["a", 1], [], ["a", "a"], [b"a", b"b"]]), odd)
model_cases = st.tuples(weights, means, loadings, uniquenesses, names)


def check_model(case):
    """Make a model from arrays."""
    with refusals((TypeError, ValueError)):
        model = amofa.MixtureOfFactorAnalyzers(*case)
        check_made(model)


def check_made(model):
    fuzz_files.check_model(model)
    assert not np.isnan(model.score_samples(np.zeros((2, model.n_features)))).any()


# ---- methods ---------------------------------------------------------------------------------------------------------

whole = st.one_of(st.integers(-2, 4), odd.filter(lambda v: not isinstance(v, int) or v < 100))
states = st.one_of(st.none(), st.integers(0, 9), odd)
known = st.one_of(pick([[0], [1], [0, 1], [], [-1], [2], [0, 0], ["a"], ["x"], "a", [0.0], [True], [0, "b"]]), odd)
rows_only = ("predict", "predict_proba", "score_samples", "factor_scores", "transform")
CALLS = st.one_of(
    st.tuples(pick(rows_only), st.tuples(tables), st.just({})),
    st.tuples(pick(("score", "bic", "aic", "icl")), st.tuples(tables, row_weights), st.just({})),
    st.tuples(st.just("inverse_transform"), st.tuples(st.one_of(tables, numbers((3, 5)))), st.just({})),
    st.tuples(st.just("condition"), st.tuples(known, st.one_of(numbers((1,)), numbers((2,)), odd)), st.just({})),
    st.tuples(
        st.just("impute"), st.tuples(tables),
        st.fixed_dictionaries({}, optional={"known_columns": known, "draws": pick([True, False, None, 2]),
                                            "random_state": states}),
    ),
    st.tuples(st.just("sample"), st.tuples(whole, states), st.just({})),
    st.tuples(st.just("covariance"), st.tuples(whole), st.just({})),
    st.tuples(st.just("save"), st.tuples(odd.filter(lambda v: not isinstance(v, str | int))), st.just({})),
    st.tuples(pick(("summary", "cython_handle", "__repr__")), st.just(()), st.just({})),
)  # fmt: skip
method_cases = st.tuples(st.integers(0, 3), CALLS)


def make_models():
    rng = np.random.default_rng(1)
    make = amofa.MixtureOfFactorAnalyzers._from_fit
    tight = random_mixture(rng, 2, 2, (2, 1))
    tight.uniquenesses[:] = 1e-300
    tight.loadings[:] = 0.0
    lopsided = random_mixture(rng, 2, 2, (0, 5))
    lopsided.weights[:] = 1.0, 0.0
    return [make(random_mixture(rng, 2, 2, (2, 1)), None, ("a", "b")), make(random_mixture(rng, 2, 2, 0)), make(tight),
            make(lopsided)]  # fmt: skip


MODELS = make_models()


def check_method(case):
    """Call a method of a model."""
    which, (name, arguments, options) = case
    model = MODELS[which]
    before = model._parameters.buffer.tobytes()
    if name == "save":
        arguments = [a for a in arguments if a is not print]
    with refusals(REFUSALS):
        with np.errstate(all="ignore"):
            result = getattr(model, name)(*arguments, **options)
        check_output(name, model, arguments, result)
    assert model._parameters.buffer.tobytes() == before
    assert pickle.dumps(copy.deepcopy(model)) == pickle.dumps(pickle.loads(pickle.dumps(model)))


def check_output(name, model, arguments, result):
    K, P = model.n_components, int(model.n_factors.sum())
    n = np.shape(arguments[0])[0] if arguments and np.ndim(arguments[0]) == 2 else None
    widths = {"predict": (), "predict_proba": (K,), "score_samples": (), "transform": (K + P,), "impute": (2,),
              "inverse_transform": (2,)}  # fmt: skip
    if name in widths and n is not None:
        assert result.shape == (n, *widths[name])
    if name == "predict_proba":
        np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=1e-9)
    if name == "predict":
        assert ((result >= 0) & (result < K)).all()
    if name == "condition":
        fuzz_files.check_model(result)
    if name == "impute":
        assert not np.isnan(result).any()
    if name == "score":
        assert not np.isnan(result)


# ---- fits ------------------------------------------------------------------------------------------------------------

fit_options = st.fixed_dictionaries(
    {},
    optional={
        "n_components": st.one_of(st.integers(-1, 3), odd), "n_factors": st.one_of(st.integers(-1, 3), odd),
        "max_components": st.one_of(st.integers(-1, 3), odd), "max_factors": st.one_of(st.integers(-1, 3), odd),
        "search": st.one_of(pick(["paper", "thorough"]), odd),
        "noise": st.one_of(pick(["auto", "shared", "isotropic"]), odd),
        "criterion": st.one_of(pick(["mml", "bic", "evidence"]), odd), "noise_floor": st.one_of(numbers(()), odd),
        "sample_weight": st.one_of(numbers((12,)).map(np.abs), odd), "tol": st.one_of(pick([1e-3, 1e300]), odd),
        "max_iter": st.one_of(st.integers(-1, 5), odd), "n_threads": st.one_of(st.integers(-1, 2), odd),
        "init": st.one_of(pick(["MODEL", "LABELS"]), odd),
    },
)  # fmt: skip
fit_cases = st.tuples(
    st.one_of(st.builds(in_form, pick([(12, 2), (12, 1), (12, 3), (2, 5)]).flatmap(numbers), pick(FORMS)), odd),
    fit_options,
)


def check_fit(case):
    """Fit a few rows."""
    X, options = case
    if isinstance(options.get("init"), str):
        options = options | {"init": MODELS[0] if options["init"] == "MODEL" else np.arange(12) % 2}
    with refusals((TypeError, ValueError)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", amofa.AmofaWarning)
            model = amofa.fit(X, **options)
        fuzz_files.check_model(model)
        assert np.isfinite(model.log_likelihood)


TARGETS = {
    "models": (model_cases, check_model),
    "methods": (method_cases, check_method),
    "fits": (fit_cases, check_fit),
}
