"""Sums of powers of some values about their mean, and those of two sets joined into one."""

import math

from msgspec import Struct


class Sums(Struct, frozen=True):
    """Of some finite values, with what else there was."""

    count: int = 0
    mean: float = 0.0
    second: float = 0.0
    """Sum of squares of the distance from the mean; ``third`` and ``fourth`` likewise."""
    third: float = 0.0
    fourth: float = 0.0
    magnitudes: float = 0.0
    """Sum of magnitudes."""
    minimum: float = math.inf
    maximum: float = -math.inf
    zeros: int = 0
    nans: int = 0
    infinities: int = 0

    @property
    def squares(self) -> float:
        """Sum of squares of the values themselves."""
        return self.second + self.count * self.mean**2


def joined(one: Sums, other: Sums) -> Sums:
    """Return the sums of both together.

    Source: Pébay, Formulas for robust, one-pass parallel computation of covariances and
    arbitrary-order statistical moments, SAND2008-6212, equations 2.1 and 3.1; Chan et al. for the
    second.
    """
    here, there = one.count, other.count
    whole = max(here + there, 1)
    delta = (other.mean - one.mean) if here and there else 0.0
    step = delta / whole
    second = one.second + other.second + delta * step * here * there
    third = one.third + other.third + delta * step**2 * here * there * (here - there)
    third += 3 * step * (here * other.second - there * one.second)
    fourth = one.fourth + other.fourth
    fourth += delta * step**3 * here * there * (here * here - here * there + there * there)
    fourth += 6 * step**2 * (here * here * other.second + there * there * one.second)
    fourth += 4 * step * (here * other.third - there * one.third)
    return Sums(
        count=here + there,
        mean=one.mean + step * there if here else other.mean,
        second=second,
        third=third,
        fourth=fourth,
        magnitudes=one.magnitudes + other.magnitudes,
        minimum=min(one.minimum, other.minimum),
        maximum=max(one.maximum, other.maximum),
        zeros=one.zeros + other.zeros,
        nans=one.nans + other.nans,
        infinities=one.infinities + other.infinities,
    )
