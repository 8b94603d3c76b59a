"""Models in files: bit-equal round trips, damaged files, atomic replacement."""

import math
import os
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from reference import random_mixture

from amofa import io
from amofa._model import files
from amofa.history import FitReport, Step
from amofa.mixture import MixtureOfFactorAnalyzers

PARTS = ("weights", "means", "uniquenesses", "n_factors", "at_floor")
SCALARS = ("cost", "log_likelihood", "message_length", "criterion", "n_samples", "n_parameters", "converged", "history",
           "feature_names", "noise")  # fmt: skip


@pytest.fixture
def from_arrays(rng):
    """A model without a fit, with components of 0, 1 and 3 factors."""
    return MixtureOfFactorAnalyzers._from_fit(random_mixture(rng, 3, 2, (0, 1, 3)), None)


@pytest.fixture
def fitted(rng):
    """A model with all that a fit reports."""
    history = (
        Step("start", -1, (1,), 12.5, 12.25, -7.0, 30, True),
        Step("split", 0, (1, 2), math.nextafter(10.0, 11.0), float("inf"), -0.1, 17, False),
        Step("factor", 0, (2,), 9.75, 9.5, -6.0, 8, True),
    )
    at_floor = np.array([[True, False, False], [False, False, True]])
    report = FitReport(-1 / 3, 100 / 7, "mml", 99.5, True, at_floor, history, 18, cost=math.nextafter(9.75, 9.0))
    return MixtureOfFactorAnalyzers._from_fit(random_mixture(rng, 2, 3, (2, 0)), report)


def assert_equal(a, b):
    for name in PARTS:
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()
        assert x.shape == y.shape
    assert [x.tobytes() for x in a.loadings] == [x.tobytes() for x in b.loadings]
    assert [x.shape for x in a.loadings] == [x.shape for x in b.loadings]
    for name in SCALARS:
        assert getattr(a, name) == getattr(b, name)
        assert type(getattr(a, name)) is type(getattr(b, name))


def rewrite(path, **changes):
    """Put other arrays into a file; None takes one out."""
    with np.load(path) as archive:
        arrays = dict(archive) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


# ---- round trips -----------------------------------------------------------------------------------------------------


def test_round_trip_is_bit_equal(from_arrays, fitted, tmp_path):
    for model in (from_arrays, fitted):
        io.save(model, tmp_path / "model.npz")
        assert_equal(io.load(tmp_path / "model.npz"), model)


def test_steps_are_of_plain_python_types(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    for loaded, step in zip(io.load(tmp_path / "m.npz").history, fitted.history, strict=True):
        assert [type(v) for v in vars(loaded).values()] == [type(v) for v in vars(step).values()]
        assert all(type(p) is int for p in loaded.n_factors)


def test_weights_whose_sum_is_not_quite_one_keep_their_bits(rng, tmp_path):
    parameters = random_mixture(rng, 3, 2, 1)
    parameters.weights[:] = 0.1, 0.2, 0.7 + 1e-9
    model = MixtureOfFactorAnalyzers._from_fit(parameters, None)
    model.save(tmp_path / "m.npz")
    assert (parameters.weights / parameters.weights.sum() != parameters.weights).any()
    assert_equal(io.load(tmp_path / "m.npz"), model)


def test_a_loaded_model_works_and_is_read_only(from_arrays, fitted, rng, tmp_path):
    for model in (from_arrays, fitted):
        model.save(tmp_path / "m.npz")
        twin = io.load(tmp_path / "m.npz")
        X = rng.standard_normal((20, model.n_features))
        assert np.array_equal(twin.transform(X), model.transform(X))
        assert twin.summary() == model.summary()
        for array in (twin.weights, twin.means, twin.uniquenesses, twin.at_floor, *twin.loadings):
            assert not array.flags.writeable


def test_a_fit_without_steps(fitted, tmp_path):
    report = FitReport(0.0, 0.0, "bic", 5.0, False, fitted.at_floor, (), 18, cost=1.0)
    model = MixtureOfFactorAnalyzers._from_fit(fitted._parameters, report)
    model.save(tmp_path / "m")
    assert_equal(io.load(tmp_path / "m"), model)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_files_of_earlier_versions_are_read(version, fitted, tmp_path):
    first = {"n_parameters": 2, "feature_names": 3, "cost": 4, "degrees_of_freedom": 5, "constant": 5, "noise": 7}
    first |= {f"background{part}": 6 for part in ("", "_weight", "_center", "_scale", "_shares", "_degrees_of_freedom")}
    later = [name for name, since in first.items() if since > version]
    fitted.save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", version=np.array(version), **dict.fromkeys(later))
    loaded = io.load(tmp_path / "m.npz")
    if version < 4:
        assert math.isnan(loaded.cost)
        assert "cost" not in loaded.summary().splitlines()[1]
    assert np.isinf(loaded.degrees_of_freedom).all()
    known = replace(loaded._report, cost=fitted.cost, noise=fitted.noise)
    assert_equal(MixtureOfFactorAnalyzers._from_fit(loaded._parameters, known), fitted)


def test_pickles_of_reports_without_a_cost_are_read(fitted):
    twin = pickle.loads(pickle.dumps(fitted))
    del twin._report.__dict__["cost"]
    assert math.isnan(pickle.loads(pickle.dumps(twin)).cost)


@pytest.mark.parametrize("names", [("a", "b", "c"), ("", "größe [µm]", "a,b\n"), ("x" * 300, "x", "x")])
def test_names_of_features_are_kept(names, fitted, tmp_path):
    model = MixtureOfFactorAnalyzers._from_fit(fitted._parameters, fitted._report, names)
    model.save(tmp_path / "m.npz")
    assert_equal(io.load(tmp_path / "m.npz"), model)
    assert io.load(tmp_path / "m.npz").feature_names == names


def test_names_must_be_as_many_as_features(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", feature_names=np.array(["a", "b"]))
    with pytest.raises(ValueError, match="feature_names has 2 names for 3 features"):
        io.load(tmp_path / "m.npz")


def test_a_count_of_parameters_that_does_not_follow_from_the_factors_is_kept(fitted, tmp_path):
    report = replace(fitted._report, n_parameters=7)
    MixtureOfFactorAnalyzers._from_fit(fitted._parameters, report).save(tmp_path / "m.npz")
    assert io.load(tmp_path / "m.npz").n_parameters == 7 != fitted.n_parameters


def test_a_checkpoint_is_read_as_its_model(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", **{"search/phase": np.array("split"), "search/done": np.eye(3)})
    assert_equal(io.load(tmp_path / "m.npz"), fitted)


@pytest.mark.parametrize("name", ["model", "model.bin", "mödel.npz.old", "x" * 250])
def test_names_are_taken_as_they_are(name, from_arrays, tmp_path):
    io.save(from_arrays, str(tmp_path / name))
    assert os.listdir(tmp_path) == [name]
    assert_equal(io.load(str(tmp_path / name)), from_arrays)


def test_the_same_model_gives_the_same_bytes(fitted, tmp_path):
    for name in "ab":
        fitted.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_other_byte_order_is_read(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as archive:
        swapped = {name: a.astype(a.dtype.newbyteorder("S")) for name, a in archive.items()}
    np.savez(tmp_path / "m.npz", **swapped)
    assert_equal(io.load(tmp_path / "m.npz"), fitted)


# ---- damaged and strange files ---------------------------------------------------------------------------------------


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError):
        io.load(tmp_path)
    with pytest.raises(TypeError):
        io.load(7)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"PK\x03\x04", b"\x93NUMPY", bytes(range(256)) * 20])
def test_other_files(content, tmp_path):
    (tmp_path / "other.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.npz is not a model file of amofa, or is damaged"):
        io.load(tmp_path / "other.npz")


class Harmful:
    """Leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_pickles_are_refused_and_not_run(from_arrays, tmp_path):
    trace, path = str(tmp_path / "trace"), tmp_path / "m.npz"
    pickle.loads(pickle.dumps(Harmful(trace))).close()
    assert os.path.exists(trace)
    os.remove(trace)
    path.write_bytes(pickle.dumps(Harmful(trace)))
    with pytest.raises(ValueError, match="is not a model file of amofa"):
        io.load(path)
    from_arrays.save(path)
    rewrite(path, weights=np.array([Harmful(trace)], dtype=object))
    with pytest.raises(ValueError, match=r"is not a model file of amofa.*Object arrays"):
        io.load(path)
    assert not os.path.exists(trace)


def test_truncated_files(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    content = (tmp_path / "m.npz").read_bytes()
    # All lengths take half a minute; the last ones are those of the directory's end.
    for length in {*range(0, len(content), 11), *range(len(content) - 100, len(content))}:
        (tmp_path / "m.npz").write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"m\.npz is not a model file of amofa, or is damaged"):
            io.load(tmp_path / "m.npz")


def test_a_flipped_bit_is_an_error_or_without_effect(fitted, rng, tmp_path):
    fitted.save(tmp_path / "m.npz")
    content = (tmp_path / "m.npz").read_bytes()
    n_errors = 0
    for position in rng.integers(len(content), size=400):
        flipped = bytearray(content)
        flipped[position] ^= 1 << rng.integers(8)
        (tmp_path / "m.npz").write_bytes(flipped)
        try:
            twin = io.load(tmp_path / "m.npz")
        except ValueError:
            n_errors += 1
        else:
            assert_equal(twin, fitted)
    assert n_errors > 100


def test_a_flipped_bit_that_shortens_an_array_is_an_error(fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    content = (tmp_path / "m.npz").read_bytes()
    assert content.count(b"'<U3'") == 1  # the criterion, "mml"; numpy would read "m" and look no further
    (tmp_path / "m.npz").write_bytes(content.replace(b"'<U3'", b"'<U1'"))
    with pytest.raises(ValueError, match=r"m\.npz is not .* damaged \(Bad CRC-32 for file 'criterion\.npy'\)"):
        io.load(tmp_path / "m.npz")


@pytest.mark.parametrize("name", [*files._layout(True)])
def test_a_missing_array(name, fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", **{name: None})
    with pytest.raises(ValueError, match=rf"m\.npz does not hold a model.*: {name} is missing"):
        io.load(tmp_path / "m.npz")


@pytest.mark.parametrize("name", [*files._layout(True)])
def test_every_array_has_its_dtype_and_shape_checked(name, fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as archive:
        array = archive[name]
    for wrong, message in ((np.zeros(array.shape, complex), "dtype complex128, expected"), (array[..., None], "shape")):
        rewrite(tmp_path / "m.npz", **{name: wrong})
        with pytest.raises(ValueError, match=f"{name} has {message}"):
            io.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": np.array("another.Model")}, r"its format is 'another\.Model', not 'amofa\.Mixture"),
        (
            {"noise": np.array("odd")},
            "noise is 'odd', which is none of component, shared, isotropic, scaled, common_loadings",
        ),
        ({"version": np.array(8)}, "its version is 8, this amofa reads versions 1 to 7; upgrade amofa"),
        ({"is_fitted": np.array(False)}, "it has unknown content: at_floor, constant, converged"),
        ({"extra": np.zeros(1)}, "it has unknown content: extra"),
        ({"means": np.zeros((3, 3))}, r"means has shape \(3, 3\), expected \(K = 2, d\)"),
        ({"at_floor": np.zeros((2, 4), bool)}, r"at_floor has shape \(2, 4\), expected \(K = 2, d = 3\)"),
        ({"loadings": np.zeros((2, 4))}, r"loadings has shape \(2, 4\), expected \(P, d = 3\)"),
        ({"step_cost": np.zeros(2)}, r"step_cost has shape \(2,\), expected \(S = 3\)"),
        ({"n_factors": np.array([1, 0])}, "n_factors must not be negative and add up to the 2 rows of loadings"),
        ({"n_factors": np.array([3, -1])}, "n_factors must not be negative"),
        ({"n_factors": np.array([2**62, 2**62])}, "n_factors must not be negative and add up"),
        ({"step_n_components": np.array([1, 1, 1])}, "step_n_components must not be negative and add up to the 4 rows"),
        ({"weights": np.array([0.5, 0.6])}, "weights must sum to 1"),
        ({"means": np.full((2, 3), np.nan)}, "means of component 0 hold NaN"),
        ({"uniquenesses": np.zeros((2, 3))}, "uniquenesses are variances"),
        ({"loadings": np.full((2, 3), np.inf)}, "loadings of component 0 hold NaN or infinite"),
    ],
)
def test_wrong_contents(changes, message, fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    rewrite(tmp_path / "m.npz", **changes)
    with pytest.raises(ValueError, match=rf"m\.npz does not hold a model that amofa can read: {message}"):
        io.load(tmp_path / "m.npz")


def test_no_components(from_arrays, tmp_path):
    from_arrays.save(tmp_path / "m.npz")
    empty, no_rows = np.zeros(0), np.zeros((0, 2))
    rewrite(tmp_path / "m.npz", weights=empty, n_factors=empty.astype(int), means=no_rows, uniquenesses=no_rows,
            loadings=no_rows, degrees_of_freedom=empty)  # fmt: skip
    with pytest.raises(ValueError, match="at least one component"):
        io.load(tmp_path / "m.npz")


def test_a_member_that_is_no_array(from_arrays, tmp_path):
    from_arrays.save(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "m.npz", "a") as archive:
        archive.writestr("note.txt", "hello")
    with pytest.raises(ValueError, match=r"it has unknown content: note\.txt"):
        io.load(tmp_path / "m.npz")


# ---- writing ---------------------------------------------------------------------------------------------------------


def test_save_needs_a_model(tmp_path):
    with pytest.raises(TypeError, match="model must be a MixtureOfFactorAnalyzers, got dict"):
        io.save({}, tmp_path / "m.npz")
    assert not os.listdir(tmp_path)


def fail_halfway(file, **arrays):
    file.write(b"half")
    raise OSError("disk full")


@pytest.mark.parametrize(
    ("owner", "function", "failure"),
    [
        (np, "savez", fail_halfway),
        (os, "fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full"))),
        (os, "replace", lambda a, b: (_ for _ in ()).throw(KeyboardInterrupt)),
    ],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    owner, function, failure, from_arrays, fitted, tmp_path, monkeypatch
):
    path = tmp_path / "m.npz"
    from_arrays.save(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(owner, function, failure)
        with pytest.raises((OSError, KeyboardInterrupt)):
            fitted.save(path)
    assert os.listdir(tmp_path) == ["m.npz"]
    assert path.read_bytes() == before
    fitted.save(path)
    assert_equal(io.load(path), fitted)


def test_the_new_file_is_on_disk_before_the_old_one_goes(from_arrays, tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(fd):
        calls.append("fsync")
        fsync(fd)

    def recorded_replace(source, target):
        calls.append("replace")
        assert os.path.dirname(source) == os.path.dirname(target)
        assert_equal(io.load(source), from_arrays)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_replace)
    from_arrays.save(tmp_path / "m.npz")
    assert calls == ["fsync", "replace"]


def test_links_are_followed(from_arrays, fitted, tmp_path):
    from_arrays.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert_equal(io.load(tmp_path / "real"), fitted)


def test_permissions_are_those_of_any_new_file(from_arrays, tmp_path):
    from_arrays.save(tmp_path / "m.npz")
    (tmp_path / "plain").touch()
    assert (tmp_path / "m.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_is_no_regular_file_is_not_replaced(from_arrays, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="not a regular file") as caught:
        from_arrays.save(folder)
    assert caught.value.filename == str(folder)
    assert folder.is_dir()


def test_errors_name_the_file_that_was_asked_for(from_arrays, tmp_path):
    path = tmp_path / "nowhere" / "model.npz"
    with pytest.raises(FileNotFoundError) as caught:
        from_arrays.save(path)
    assert caught.value.filename == str(path)


def test_a_file_that_is_replaced_keeps_its_permissions(from_arrays, tmp_path):
    path = tmp_path / "model.npz"
    from_arrays.save(path)
    path.chmod(0o600)
    from_arrays.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
