"""The table of sizes says what was measured, and would say it if time or memory grew."""

import pytest

from tests.scripts import benchmark

VIEWS = benchmark("any_size_views")
SIZES = (10**4, 10**5, 10**6, 10**7, 3 * 10**7, 10**8)


def _cells(exponent=1.0, fixed=0.001, decoding=1.1, grows=0.0):
    """Cells of fits that take so long: a fixed time and a power of the size."""
    slower = {"array": 1.0, "npy": decoding, "parquet": 3.0}
    return [
        {
            "classes": 10,
            "values": n,
            "where": where,
            "engine": engine,
            "calls": 3,
            "seconds": fixed + factor * 1e-8 * n**exponent,
            "processor_seconds": fixed + factor * 1e-8 * n**exponent,
            "megabytes": {"own": 150 + grows * n, "beyond": 10 + grows * n},
        }
        for n in SIZES
        for where, factor in slower.items()
        for engine in VIEWS.ENGINES
    ]


def _said(cells):
    """Which findings were met, by the first words of each."""
    lines = VIEWS.findings(VIEWS.verdicts(cells)).splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(" ".join(row[0].split()[:3]), row[3]) for row in rows}


def test_what_grows_linearly_is_seen_whatever_the_fixed_cost():
    for fixed in (0.001, 0.1):
        found = VIEWS.verdicts(_cells(fixed=fixed))["exponents"]
        assert all(abs(e["exponent"] - 1) < 0.01 for e in found)
        assert all(e["start"] == pytest.approx(fixed, rel=0.2) for e in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"exponent": 1.1}, "exponent of time,"),
        ({"exponent": 0.9}, "exponent of time,"),
        ({"decoding": 1.8}, "rate from npy"),
        ({"grows": 1e-6}, "memory for the"),
    ],
)
def test_what_misses_is_said(change, missed):
    assert (missed, "met") in _said(_cells())
    assert (missed, "missed") in _said(_cells(**change))
    assert ("rate from Parquet", "missed") in _said(_cells())


def test_a_table_has_a_row_for_each_size_and_a_column_for_each_way():
    lines = VIEWS.rates(_cells(), 10, "seconds").splitlines()
    assert len(lines) == 2 + len(SIZES)
    assert lines[0].count("|") == 2 + 9 + 1
    assert lines[-2].startswith("| 3·10⁷ ")


def test_exponents_are_those_of_the_last_thousandfold_of_sizes():
    cells = _cells(fixed=0.1)
    for cell in cells:
        if cell["values"] < 10**5:
            cell["seconds"] *= 3
    assert all(abs(e["exponent"] - 1) < 0.01 for e in VIEWS.verdicts(cells)["exponents"])


def test_a_size_that_an_engine_was_not_given_is_left_empty():
    cells = [c for c in _cells() if c["values"] < 10**8 or c["engine"] == "Dask"]
    last = VIEWS.rates(cells, 10).splitlines()[-1].split("|")
    assert [bool(cell.strip()) for cell in last[3:-1]] == [False, False, True] * 3


def test_one_exponent_is_fitted_to_all_ways_of_an_engine():
    for exponent in (0.9, 1.0):
        found = VIEWS.verdicts(_cells(exponent=exponent))["together"]
        assert [f["engine"] for f in found] == list(VIEWS.ENGINES)
        assert all(abs(f["exponent"] - exponent) < 0.01 for f in found)
