"""The precision that tepid promises, at which the tests compare.

Row sums are float32: their last digits depend on the vector width of the processor and on whether
it multiplies and adds in one step. A tolerance below these bounds tests the processor.

The same rows in another order, in blocks or on more threads have identical row sums. Only float64
sums differ then, and T agrees to 1e-9 (docs/large-data.md). Rows that are rounded again, because
they were scaled, shifted, masked or their classes reordered, agree to `apart`.
"""

# The absolute error of a mean confidence: `tepid.summaries.Curve` states it relative to 1 - max p.
CONFIDENCE = 1e-6


def apart(*temperatures):
    """How far fits with one exact optimum may lie apart: the sum of what each may err by."""
    return sum(t.precision for t in temperatures)
