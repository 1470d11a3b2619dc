"""Numbers to text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui_profiler.figures import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "·"),
        (1, "1"),
        (128, "128"),
        (999, "999"),
        (999.4, "999"),
        (999.5, "1.00K"),
        (1000, "1.00K"),
        (9408, "9.41K"),
        (9994, "9.99K"),
        (9995, "10.0K"),
        (99_950, "100K"),
        (999_499, "999K"),
        (999_500, "1.00M"),
        (25_557_032, "25.6M"),
        (4_089_184_256, "4.09G"),
        (1e12, "1.00T"),
        (1e21, "1000E"),
    ],
)
def test_a_count_has_three_digits_and_carries(value: float, text: str) -> None:
    assert units.count(value) == text


@given(st.floats(min_value=0, max_value=9.99e20))
def test_a_count_takes_at_most_five_cells(value: float) -> None:
    assert len(units.count(value)) <= 5


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.41, "9.41"), (9.995, "10.0"), (99.95, "100"), (118.2, "118"), (0, "0.00")],
)
def test_three_digits_carry(value: float, text: str) -> None:
    assert units.three_digits(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1024, "1.00 KiB"),
        (200_704, "196 KiB"),
        (1023.6 * 1024, "1.00 MiB"),
        (2_757_755, "2.63 MiB"),
        (2**30, "1.00 GiB"),
        (2**40, "1.00 TiB"),
    ],
)
def test_bytes_have_binary_prefixes(value: float, text: str) -> None:
    assert units.size(value) == text


@given(st.floats(min_value=0, max_value=2.0**69))
def test_bytes_take_at_most_eight_cells(value: float) -> None:
    assert len(units.size(value)) <= 8


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (115_605_504, "MAC", "116 MMAC"),
        (231_211_008, "FLOP", "231 MFLOP"),
        (259e9, "FLOP/s", "259 GFLOP/s"),
        (3.1e9, "B/s", "3.10 GB/s"),
        (7, "FLOP", "7 FLOP"),
        (27.4, "it/s", "27.4 it/s"),
        (999.6, "it/s", "1.00 Kit/s"),
    ],
)
def test_a_quantity_has_its_unit(value: float, unit: str, text: str) -> None:
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 µs"),
        (0.4e-6, "0.40 µs"),
        (99.9e-6, "99.9 µs"),
        (99.96e-6, "0.10 ms"),
        (0.92e-3, "0.92 ms"),
        (36.5e-3, "36.5 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.2, "1.20 s"),
        (999.4, "999 s"),
        (999.6, "16m 40s"),
        (3600 * 3 + 300, "3h 05m"),
    ],
)
def test_a_duration_has_its_own_unit(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("root", "unit"), [(0.5e-3, "µs"), (9.9e-3, "µs"), (10e-3, "ms"), (0.99, "ms"), (12.0, "ms")]
)
def test_a_column_has_a_unit_in_which_its_small_figures_are_read(root: float, unit: str) -> None:
    assert units.fitted_times(root).unit == unit
    assert units.aligned_times(root).unit == unit


FAST, SHORT, LONG = (units.fitted_times(seconds) for seconds in (1e-3, 0.1, 10.0))


@pytest.mark.parametrize(
    ("before", "seconds", "column"),
    [
        (None, 0.012, SHORT),
        (FAST, 0.012, FAST),
        (FAST, 0.021, SHORT),
        (SHORT, 0.006, SHORT),
        (SHORT, 0.004, FAST),
        (SHORT, 1.5, SHORT),
        (SHORT, 2.1, LONG),
        (LONG, 0.6, LONG),
        (LONG, 0.4, SHORT),
    ],
)
def test_a_column_is_written_as_before_until_twice_beyond(
    before: units.TimeColumn | None, seconds: float, column: units.TimeColumn
) -> None:
    assert units.fitted_times(seconds, before) == column


@pytest.mark.parametrize(
    ("seconds", "column", "text"),
    [
        (0.5e-3, FAST, "500.0"),
        (4.25e-3, FAST, "4250"),
        (0.01e-6, FAST, "<0.1"),
        (36.5e-3, SHORT, "36.50"),
        (0.89e-3, SHORT, "0.89"),
        (0.02e-3, SHORT, "0.02"),
        (3e-6, SHORT, "<0.01"),
        (0.0, SHORT, "0.00"),
        (0.5e-3, LONG, "0.50"),
        (0.0994e-3, LONG, "0.099"),
        (0.1e-3, LONG, "0.10"),
        (23e-6, LONG, "0.023"),
        (0.3e-6, LONG, "<0.001"),
        (0.99999, LONG, "999.99"),
        (0.999996, LONG, "1.00 s"),
        (12.3456, LONG, "12.3 s"),
        (1234.5, LONG, "1234 s"),
        (9999.6, LONG, "2.78 h"),
        (1e30, LONG, ">999 h"),
        (23e-6, units.aligned_times(12.0), "0.023"),
        (345e-3, units.aligned_times(12.0), "345.000"),
        (12.0, units.aligned_times(12.0), "12.0 s"),
        (12e-6, units.aligned_times(5e-3), "12"),
        (0.2e-6, units.aligned_times(5e-3), "<1"),
    ],
)
def test_a_time_has_the_digits_that_its_column_has_room_for(
    seconds: float, column: units.TimeColumn, text: str
) -> None:
    assert units.in_column(seconds, column) == text


@given(st.floats(min_value=0, max_value=1e300), st.floats(min_value=0, max_value=1e6))
@example(0.5, 1e-4)
def test_a_time_in_a_column_takes_at_most_so_many_cells(value: float, largest: float) -> None:
    assert len(units.in_column(value, units.fitted_times(largest))) <= 6
    assert len(units.in_column(value, units.aligned_times(largest))) <= 7


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_time_in_a_long_column_is_right_to_its_last_digit(seconds: float) -> None:
    figure, _, unit = units.in_column(seconds, units.fitted_times(12.0)).partition(" ")
    one = {"": 1e-3, "s": 1.0, "h": 3600.0}[unit]
    last_digit = one / 10 ** len(figure.partition(".")[2])
    assert abs(float(figure) * one - seconds) <= 0.501 * last_digit


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "·"),
        (0.0001, "<1"),
        (0.00499, "<1"),
        (0.005, "1"),
        (0.0149, "1"),
        (0.33, "33"),
        (1, "100"),
    ],
)
def test_a_share_in_a_column_is_whole(share: float, text: str) -> None:
    assert units.share_cell(share) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.024, "2.4 %"), (0.0995, "10 %"), (0.64, "64 %"), (-0.06, "−6.0 %")]
)
def test_a_share_in_a_panel_has_one_digit_below_ten(share: float, text: str) -> None:
    assert units.share(share) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(83.8, "83.8"), (0.124, "0.12"), (999.4, "999"), (999.6, "1.00K")]
)
def test_an_intensity_has_three_digits(ratio: float, text: str) -> None:
    assert units.intensity(ratio) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("bool", "bool"),
        ("complex64", "c64"),
        ("qint8", "qi8"),
        ("float8_e4m3fn", "float8_e4m3fn"),
        ("", ""),
    ],
)
def test_a_dtype_is_shortened(name: str, text: str) -> None:
    assert units.dtype(name) == text


def test_a_shape_has_every_axis() -> None:
    assert units.shape((1, 256, 14, 14)) == "1×256×14×14"


def test_a_scalar_has_no_axes() -> None:
    assert units.shape(()) == "scalar"


@pytest.mark.parametrize(
    ("hertz", "text"), [(2.6e9, "2.6 GHz"), (800e6, "800 MHz"), (999.6e6, "1.0 GHz")]
)
def test_a_clock_is_in_gigahertz_or_megahertz(hertz: float, text: str) -> None:
    assert units.frequency(hertz) == text


def test_large_counts_have_commas() -> None:
    assert units.thousands(1284) == "1,284"


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (0.0, "0 J"),
        (3210.0, "3.21 kJ"),
        (999.6, "1.00 kJ"),
        (999.4, "999 J"),
        (5.0, "5.00 J"),
        (0.9996, "1.00 J"),
        (0.9994, "999 mJ"),
        (0.312, "312 mJ"),
        (14e-6, "14.0 µJ"),
        (2e-9, "2.00 nJ"),
    ],
)
def test_an_energy_has_the_largest_unit_that_it_fills(joules: float, text: str) -> None:
    assert units.energy(joules) == text
