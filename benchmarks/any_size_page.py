"""What docs/any-size.md shows of the sizes and of the chaos, from the files of results."""

import textwrap
from typing import Any

import any_size_views as views
from tables import table

# The cluster on paper, and how its logits lie.
LOGITS, BYTES, NODES, CORES = 10**12, 4, 100, 16
NETWORK = 1.25e9  # bytes a second into one node: 10 Gbit/s
PART = 256e6
PASSES, PARTS = 3, 8
WORDS = """\
From mapped files in the page cache a fit runs at {npy} of its rate from memory. From Parquet it
runs at {one} with one thread, beside which another reads ahead, at {two} with two on two processors
and at {dask} on Dask: to read and decode a column of lists takes {decoding:.1f} ns a logit and to
sum it {summing:.1f} ns (1000 classes, two threads, each), and every pass decodes anew. What is
fitted often is worth keeping as `.npy`.

Of each way alone, exponents beyond 1 ± .05: {missed}. The machine is shared, and such a figure
moves by some hundredths from run to run.
"""
PAPER = """\
One thread here fits {slow:.0f} (10 classes) to {fast:.0f} (1000 classes) million logits a second
from memory, all {passes} passes included. {nodes} nodes of {cores} such cores would need
{least:.0f} to {most:.0f} s for 10¹² logits, were the {terabytes:.0f} TB of float32 in their memory,
{gigabytes:.0f} GB a node.

**Reading breaks first.** Through 10 Gbit/s a node, {passes} passes over {terabytes:.0f} TB take
{reading:.0f} s, {times_least:.0f} to {times_most:.0f} times as long as the sums. So rows are better
summed where they lie, or held by the workers (`persist`), which leaves one reading, {once:.0f} s;
float16 halves it; labels or an accuracy need one pass fewer; and with a hundredth of the rows the
standard error is only ten times as large.

**Then the scheduler.** In parts of {part:.0f} MB there are {parts:,.0f} tasks a pass. Dask took
{task:.1f} ms here for each part and pass of a fit that had next to nothing to sum, which would be
{tasks:.0f} s for all of them, one after the other, whatever the number of nodes. Parts of 2 GB make
that {larger:.0f} s.

**With very many classes, the summaries.** They take {few:.0f} kB for 1000 classes, so
{few_sent:.1f} GB a pass from all parts, most of it added where it is. For a million classes they
take {many:.0f} MB, an eighth of a part, and {many_sent:.1f} TB a pass; there parts must be
gigabytes, or the nodes would send each other an eighth of what they read.

**Not rounding.** Blocks of one or two million logits are summed in float64, then parts, then a
tree: no chain of additions is longer than some 10⁵, so that the relative error stays below
10⁵ · 1.1·10⁻¹⁶, about 10⁻¹¹.
"""


def sizes(result: dict[str, Any]) -> str:
    """What had to be shown."""
    return views.findings(result["verdicts"])


def size_rates(result: dict[str, Any]) -> str:
    """Rows per second, for each number of classes."""
    return _by_classes(result, views.rates)


def size_memory(result: dict[str, Any]) -> str:
    """Megabytes, for each number of classes."""
    return _by_classes(result, views.memory)


def _by_classes(result: dict[str, Any], shown: Any) -> str:
    cells = result["cells"]
    counts = dict.fromkeys(cell["classes"] for cell in cells)
    return "\n\n".join(f"**{k} classes**\n\n{shown(cells, k)}" for k in counts)


def size_words(result: dict[str, Any]) -> str:
    """Why Parquet is slower, in words."""
    memory, decoded = (_largest(result, 1000, w, "2 threads") for w in ("array", "parquet"))
    # Nanoseconds of one thread for each pass.
    summing, both = (2e9 * cell["seconds"] / cell["values"] / PASSES for cell in (memory, decoded))
    words = WORDS.format(
        npy=_shares(result, "npy", "1 thread", "2 threads"),
        one=_shares(result, "parquet", "1 thread"),
        two=_shares(result, "parquet", "2 threads"),
        dask=_shares(result, "parquet", "Dask"),
        decoding=both - summing,
        summing=summing,
        missed=_missed(result),
    )
    return "\n\n".join(_filled(paragraph) for paragraph in words.split("\n\n"))


def _shares(result: dict[str, Any], where: str, *engines: str) -> str:
    found = [
        100 * s["share"]
        for s in result["verdicts"]["shares"]
        if s["where"] == where and s["engine"] in engines
    ]
    return f"{min(found):.0f} to {max(found):.0f} %"


def _missed(result: dict[str, Any]) -> str:
    """The exponents that are not within their bounds, by name."""
    odd = [e for e in result["verdicts"]["exponents"] if abs(e["exponent"] - 1) > views.EXPONENT]
    names = [
        f"{views.WHERE[e['where']]}, {e['classes']} classes, {e['engine']} ({e['exponent']:.3f})"
        for e in odd
    ]
    return "; ".join(names) or "none"


def paper(result: dict[str, Any]) -> str:
    """What the rates mean for 10¹² logits on a hundred nodes, and what would break first."""
    rates = [_largest(result, k, "array", "1 thread") for k in (10, 1000)]
    slow, fast = (cell["values"] / cell["seconds"] for cell in rates)
    least, most = (LOGITS / (rate * NODES * CORES) for rate in (fast, slow))
    reading = LOGITS * BYTES * PASSES / (NODES * NETWORK)
    parts = LOGITS * BYTES / PART
    task = _smallest(result, "Dask")["seconds"] / (PARTS * PASSES)
    few, many = (result["summary_bytes"][k]["tails"] for k in ("1000", "1000000"))
    text = PAPER.format(
        slow=slow / 1e6, fast=fast / 1e6, passes=PASSES, nodes=NODES, cores=CORES, least=least,
        most=most, terabytes=LOGITS * BYTES / 1e12, gigabytes=LOGITS * BYTES / NODES / 1e9,
        reading=reading, once=reading / PASSES, times_least=reading / most,
        times_most=reading / least, part=PART / 1e6, parts=parts, task=1e3 * task,
        tasks=PASSES * parts * task, larger=PASSES * parts * task * PART / 2e9, few=few / 1e3,
        few_sent=parts * few / 1e9, many=many / 1e6,
        many_sent=parts * many / 1e12,
    )  # fmt: skip
    return "\n\n".join(_filled(paragraph) for paragraph in text.split("\n\n"))


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 118)


def chaos(result: dict[str, Any]) -> str:
    """What was done to each victim, and what was found."""
    head = ("victim", "done to it", "checks", "wrong", "left")
    rows = [tuple(victim[name] for name in head) for victim in result["victims"]]
    wrong = len(result["wrong"])
    said = f"{result['total']} kills and faults, {result['checks']} checks, {wrong} wrong."
    return f"{table(head, rows)}\n\n{said}"


def _largest(result: dict[str, Any], classes: int, where: str, engine: str) -> dict[str, Any]:
    wanted = (classes, where, engine)
    same = [c for c in result["cells"] if (c["classes"], c["where"], c["engine"]) == wanted]
    return max(same, key=lambda cell: cell["values"])  # type: ignore[no-any-return]


def _smallest(result: dict[str, Any], engine: str) -> dict[str, Any]:
    cells = [cell for cell in result["cells"] if cell["engine"] == engine]
    return min(cells, key=lambda cell: (cell["values"], cell["seconds"]))  # type: ignore[no-any-return]
