"""How colours differ to an eye: contrast after WCAG, distance after OKLab, colour-blind ones too.

Written from the definitions, with nothing of ours: W3C's WCAG 2.2 for luminance and contrast, Björn
Ottosson's OKLab (2020), and the matrices of Machado, Oliveira and Fernandes (2009) at severity 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

Colour = tuple[float, float, float]

VISIONS: dict[str, tuple[Colour, Colour, Colour]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
_TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)


def linear(hexadecimal: str) -> Colour:
    """Return the linear light of ``#RRGGBB``, each 0 to 1."""
    parts = [int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast ratio, 1 to 21."""
    lights = sorted(
        0.2126 * red + 0.7152 * green + 0.0722 * blue
        for red, green, blue in (linear(one), linear(other))
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def distance(one: str, other: str, vision: str = "normal") -> float:
    """Return the distance in OKLab, times 100."""
    a, b = (_lab(_times(VISIONS[vision], linear(colour))) for colour in (one, other))
    return 100 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5


def least_distance(colours: Iterable[str], vision: str = "normal") -> float:
    """Return the distance of the two that are nearest to each other."""
    return min(distance(one, other, vision) for one, other in combinations(colours, 2))


def _lab(light: Colour) -> Colour:
    cones = _times(_TO_CONES, (max(light[0], 0), max(light[1], 0), max(light[2], 0)))
    return _times(_TO_LAB, (cones[0] ** (1 / 3), cones[1] ** (1 / 3), cones[2] ** (1 / 3)))


def _times(matrix: tuple[Colour, Colour, Colour], vector: Colour) -> Colour:
    first, second, third = (
        sum(a * b for a, b in zip(line, vector, strict=True)) for line in matrix
    )
    return first, second, third
