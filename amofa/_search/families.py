"""Families of components, in the order in which a search tries them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from amofa._background import Kind
from amofa._noise import Noise

# Degrees of freedom with which t components are tried, in this order, from the best mixture of normal ones: few do best
# where normal components stand for the tails of others, and are merged with them. Others are found from there. The
# second numbers are for each column: with many columns, components with few degrees of freedom need many rows.
_FIRST_TAILS = ((10.0, 0.25), (30.0, 1.0))


class Family(NamedTuple):
    """A family of mixtures: how uniquenesses are tied, how heavy the tails of components are, what is beside them."""

    noise: Noise
    degrees_of_freedom: float = math.inf  # of all components at the start; infinite for normal ones
    background: Kind | None = None

    @property
    def has_tails(self) -> bool:
        return self.degrees_of_freedom < math.inf

    def has_same_tails(self, other: Family) -> bool:
        return self.degrees_of_freedom == other.degrees_of_freedom

    def follows(self, other: Family) -> bool:
        """Return whether a search of this family starts from the best mixture of another one, the cheapest so far."""
        if self.background != other.background:
            return self.noise is other.noise and None in (self.background, other.background)
        if self.has_same_tails(other):
            return self.noise.is_shared and not other.noise.is_shared
        return self.noise is other.noise and not other.has_tails


def families_of(
    noises: Sequence[Noise],
    tails: str,
    degrees_of_freedom: float | None,
    n_features: int,
    backgrounds: Sequence[Kind] = (),
) -> tuple[Family, ...]:
    """Return the families of a search: kinds of noise first, then kinds of tails ("normal", "t" or "auto").

    Those with backgrounds, which have normal components, come at the end.
    """
    first_tails = [max(degrees, for_each * n_features) for degrees, for_each in _FIRST_TAILS]
    if tails == "normal":
        all_tails = [math.inf]
    elif degrees_of_freedom is not None:
        all_tails = [degrees_of_freedom]
    else:
        all_tails = first_tails if tails == "t" else [math.inf, *first_tails]
    plain = [Family(noise, degrees) for degrees in all_tails for noise in noises]
    return (*plain, *(Family(noise, background=kind) for kind in backgrounds for noise in noises))
