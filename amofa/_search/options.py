"""The options of `amofa.fit`: the only place that names them, with defaults, checks and a line of help."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from amofa._background import Kind, LogDensity
from amofa._data.checks import (
    check_choice,
    check_factor_sequence,
    check_function,
    check_noise_floor,
    check_not_negative,
    check_path,
    check_positive,
    check_variances,
    check_whole_number,
)
from amofa._noise import Noise
from amofa._search.constraints import Constraints
from amofa.criterion import CRITERIA

if TYPE_CHECKING:
    from amofa.history import Callback, OnIteration
    from amofa.mixture import MixtureOfFactorAnalyzers

SEARCHES = ("thorough", "paper")
# The criterion that only "thorough" has: it depends on more than numbers of parameters.
EVIDENCE = "evidence"
AUTO = "auto"
# "auto" tries separate and shared noise, "any" also the kinds with a joint M-step.
ANY = "any"
NOISES = (*map(str, Noise), AUTO, ANY)
_JOINT = tuple(str(noise) for noise in Noise if noise.is_joint)
NORMAL, STUDENT = "normal", "t"
TAILS = (NORMAL, STUDENT, AUTO)
# Backgrounds that are made from the rows; "auto" tries all.
MEASURED = (Kind.UNIFORM, Kind.NESTED, Kind.HEAVY)
BACKGROUNDS = (*map(str, MEASURED), AUTO)
# Rows that the prior of a uniqueness is worth. It has a variance from here on.
_PRIOR_ROWS = 4.0


def _option(
    help: str = "",
    kind: Callable[[str], Any] | None = None,
    metavar: str = "",
    *,
    many: bool = False,
    decides: bool = True,
) -> dict[str, Any]:
    """Describe an option.

    `help` is a line for the command line, and `metavar` names the value there. `kind` makes a value, or one of several
    with commas if `many`, from text; None if the command line does not have the option. `decides` says whether the
    model depends on it.
    """
    return {"help": help, "kind": kind, "metavar": metavar, "many": many, "decides": decides}


_N_FACTORS = "number of factors of every component, or one for each with commas; found if not given"
_CRITERION = f"what is minimised: {', '.join((EVIDENCE, *CRITERIA))} (default: {EVIDENCE}, or mml with --search paper)"
_NOISE = f"how uniquenesses are tied: {', '.join(NOISES)} (default: auto, of the thorough search)"
_TAILS = f"distributions of components: {', '.join(TAILS)}"
_BACKGROUND = f"density of rows that belong to no component: {', '.join(BACKGROUNDS)}"
_NOISE_FLOOR = "smallest uniqueness, as a share of each column's variance; or with commas, a variance for each column"
_MAX_TIME = "time after which the best model so far is the result"


@dataclass(frozen=True)
class FitOptions:
    """The options of `amofa.fit`, which describes them, in the same order."""

    n_components: int | None = field(
        default=None, metadata=_option("number of components; found if not given", int, "K")
    )
    n_factors: int | Sequence[int] | None = field(default=None, metadata=_option(_N_FACTORS, int, "P", many=True))
    max_components: int | None = field(default=None, metadata=_option("most components that are found", int, "K"))
    max_factors: int | None = field(
        default=None, metadata=_option("most factors of a component that are found", int, "P")
    )
    init: MixtureOfFactorAnalyzers | ArrayLike | None = field(
        default=None, metadata=_option("model file to start from, instead of one component", str, "MODEL")
    )
    search: str = field(
        default="thorough", metadata=_option(f"how numbers are found: {', '.join(SEARCHES)}", str, "NAME")
    )
    criterion: str | None = field(default=None, metadata=_option(_CRITERION, str, "NAME"))
    noise: str | None = field(default=None, metadata=_option(_NOISE, str, "NAME"))
    noise_floor: float | ArrayLike | None = field(
        default=None, metadata=_option(_NOISE_FLOOR, float, "SHARE", many=True)
    )
    prior_scale: ArrayLike | None = field(default=None, metadata=_option())
    prior_rows: float | None = field(default=None, metadata=_option())
    tails: str = field(default="normal", metadata=_option(_TAILS, str, "NAME"))
    degrees_of_freedom: float | None = field(
        default=None, metadata=_option("of t components; found if not given", float, "NU")
    )
    background: str | LogDensity | None = field(default=None, metadata=_option(_BACKGROUND, str, "NAME"))
    tol: float = field(default=1e-5, metadata=_option("smallest gain worth going on for, nats per row", float, "NATS"))
    max_iter: int = field(default=100, metadata=_option("most iterations of one EM run", int, "N"))
    callback: Callback | None = field(default=None, metadata=_option(decides=False))
    on_iteration: OnIteration | None = field(default=None, metadata=_option(decides=False))
    progress: bool = field(default=False, metadata=_option(decides=False))
    on_interrupt: str = field(default="raise", metadata=_option(decides=False))
    max_time: float | None = field(default=None, metadata=_option(_MAX_TIME, float, "SECONDS", decides=False))
    checkpoint: str | os.PathLike[str] | None = field(
        default=None, metadata=_option("file from which the same command resumes", str, "FILE", decides=False)
    )
    n_threads: int | None = field(
        default=None,
        metadata=_option(
            "threads for large tables (default: as many as there are processors for)", int, "N", decides=False
        ),
    )

    @property
    def is_paper(self) -> bool:
        """Whether this is the paper's search."""
        return self.search == "paper"

    @property
    def may_leave_out_columns(self) -> bool:
        """Whether columns that follow from others are left out of the search.

        Putting them back takes factors and small uniquenesses, so that neither may be bounded.
        """
        return not self.is_paper and self.n_factors is None and self.max_factors is None and self.noise_floor is None

    @property
    def constraints(self) -> Constraints:
        """The constraints of the search, from checked options."""
        n_factors: Any = self.n_factors
        return Constraints(self.n_components, n_factors, self.max_components, self.max_factors)

    def deciding(self) -> dict[str, Any]:
        """Return the options that the model depends on, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata["decides"]}

    def checked(self, n_features: int) -> FitOptions:
        """Check all options except `init` for a table of `n_features` columns, and fill in defaults of the search.

        Raises TypeError or ValueError if one cannot be used; the message names it and says what to do.
        """
        return replace(
            self,
            **self._checked_numbers(n_features),
            **self._checked_kind(),
            **self._checked_control(),
            **self._checked_variances(n_features),
        )

    def _checked_numbers(self, d: int) -> dict[str, Any]:
        n_components, n_factors = self.n_components, self.n_factors
        max_components, max_factors = self.max_components, self.max_factors
        if n_components is not None:
            n_components = check_whole_number("n_components", n_components, at_least=1)
        factors: int | tuple[int, ...] | None
        if n_factors is None or isinstance(n_factors, Integral):
            factors = None if n_factors is None else check_whole_number("n_factors", n_factors, at_least=0, at_most=d)
        else:
            factors = check_factor_sequence(n_factors, d, n_components)
            n_components = len(factors)
        if max_components is not None:
            max_components = check_whole_number("max_components", max_components, at_least=n_components or 1)
        if max_factors is not None:
            given = factors if isinstance(factors, int) else max(factors or (0,))
            max_factors = check_whole_number("max_factors", max_factors, at_least=given)
        return {
            "n_components": n_components,
            "n_factors": factors,
            "max_components": max_components,
            "max_factors": max_factors,
        }

    def _checked_kind(self) -> dict[str, Any]:
        """Check the options of the kind of search."""
        check_choice("search", self.search, SEARCHES)
        default = Noise.COMPONENT if self.is_paper else AUTO
        noise = check_choice("noise", default if self.noise is None else self.noise, NOISES)
        if self.is_paper:
            if noise != Noise.COMPONENT:
                raise ValueError(f"noise={noise!r} needs search='thorough'; the paper's has noise='component' alone")
            if self.criterion == EVIDENCE:
                raise ValueError("criterion='evidence' needs search='thorough'; the paper's search has criterion='mml'")
            if self.prior_rows is not None:
                raise ValueError("prior_rows needs search='thorough'; the paper's search has no prior")
        criteria = tuple(CRITERIA) if self.is_paper else (EVIDENCE, *CRITERIA)
        criterion = ("mml" if self.is_paper else EVIDENCE) if self.criterion is None else self.criterion
        prior_rows = _PRIOR_ROWS if self.prior_rows is None else self.prior_rows
        if noise in _JOINT:
            self._check_joint(noise)
        return {
            "noise": noise,
            **self._checked_tails(),
            "background": self._checked_background(),
            "criterion": check_choice("criterion", criterion, criteria),
            "prior_rows": None if self.is_paper else check_not_negative("prior_rows", prior_rows),
            "tol": check_positive("tol", self.tol),
            "max_iter": check_whole_number("max_iter", self.max_iter, at_least=1),
        }

    def _check_joint(self, noise: str) -> None:
        """Refuse options that a kind of noise with a joint M-step does not have."""
        for name, allowed in (("tails", NORMAL), ("background", None)):
            if getattr(self, name) != allowed:
                raise ValueError(
                    f"noise={noise!r} has {name}={allowed!r} alone; leave {name} out, or give noise='auto'"
                )
        if self.n_factors is not None and not isinstance(self.n_factors, Integral):
            raise ValueError(f"n_factors must be one number with noise={noise!r}, for all components")

    @property
    def may_need_joint_m_step(self) -> bool:
        """Whether components that were asked for may have something in common beyond shared noise."""
        return self.noise == ANY or self.has_joint_noise

    @property
    def has_joint_noise(self) -> bool:
        """Whether the only noise that was asked for has a joint M-step."""
        return self.noise in _JOINT

    @property
    def may_have_joint_noise(self) -> bool:
        """Whether noise="any" was given, without other options that a joint M-step does not have."""
        has_others = self.tails != NORMAL or self.background is not None or isinstance(self.n_factors, tuple)
        return self.noise == ANY and not has_others and self.constraints.most_components != 1

    def _checked_tails(self) -> dict[str, Any]:
        tails, degrees = check_choice("tails", self.tails, TAILS), self.degrees_of_freedom
        if self.is_paper and tails != NORMAL:
            raise ValueError(f"tails={tails!r} needs search='thorough'; the paper's has tails='normal' alone")
        if degrees is not None:
            degrees = check_positive("degrees_of_freedom", degrees)
            if tails != STUDENT:
                raise ValueError(f"degrees_of_freedom needs tails='t', got tails={tails!r}")
        return {"tails": tails, "degrees_of_freedom": degrees}

    def _checked_background(self) -> str | LogDensity | None:
        background = self.background
        if background is None:
            return None
        if not callable(background):
            check_choice("background", background, BACKGROUNDS)
        elif self.checkpoint is not None:
            raise ValueError("a checkpoint cannot hold a background that is a function; leave one of them out")
        if self.is_paper:
            raise ValueError("background needs search='thorough'; the paper's search has none")
        if self.tails != NORMAL:
            raise ValueError(
                f"background and tails={self.tails!r} both take the far rows; leave one of them out, the background "
                "where far rows belong to groups"
            )
        return background

    @property
    def backgrounds(self) -> tuple[Kind, ...]:
        """The kinds of background to try, of checked options."""
        if self.background is None:
            return ()
        if callable(self.background):
            return (Kind.CUSTOM,)
        return MEASURED if self.background == AUTO else (Kind(self.background),)

    def _checked_control(self) -> dict[str, Any]:
        """Check the options of callbacks, progress and limits."""
        check_function("callback", self.callback, "a step")
        check_function("on_iteration", self.on_iteration, "an iteration")
        if not isinstance(self.progress, bool | np.bool_):
            raise TypeError(f"progress must be True or False, got {self.progress!r}")
        check_choice("on_interrupt", self.on_interrupt, ("raise", "return"))
        time, path, threads = self.max_time, self.checkpoint, self.n_threads
        return {
            "max_time": None if time is None else check_positive("max_time", time),
            "checkpoint": None if path is None else check_path("checkpoint", path),
            "n_threads": None if threads is None else check_whole_number("n_threads", threads, at_least=1),
        }

    def _checked_variances(self, d: int) -> dict[str, Any]:
        floor, scale = self.noise_floor, self.prior_scale
        return {
            "noise_floor": None if floor is None else check_noise_floor(floor, d),
            "prior_scale": None if scale is None else check_variances("prior_scale", scale, d),
        }
