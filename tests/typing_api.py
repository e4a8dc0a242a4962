"""Ordinary uses of the public names; checked by mypy, never run."""

import numpy as np

import tepid

logits = np.zeros((10, 3))
temperature: tepid.Temperature = tepid.uts(logits, deviations=1.0)
labeled: tepid.Temperature = tepid.temperature_scaling("logits.npz", "labels.npy")
matched: tepid.Temperature = tepid.match_accuracy(lambda: iter([logits]), (0.9, 0.01))
all_evidence: tepid.Temperature = tepid.calibrate(
    logits, [-1] * 10, accuracy=tepid.Counted(9, 10), models=[logits], reference=logits
)
verdict: str | None = all_evidence.verdict
number: float = float(temperature)
interval: tuple[float, float] | None = matched.interval
tails: tepid.summaries.Tails = tepid.summaries.Tails.of(logits) + 0.5 * tepid.summaries.Tails.zero(
    3
)
curve: tepid.summaries.Curve = tepid.summaries.Curve.of(
    logits, thresholds=tails.thresholds(), lattice=tepid.summaries.Lattice.window()
)
score: float = tepid.metrics.ece([0, 1], [[0.8, 0.2], [0.4, 0.6]])
part: tepid.summaries.Reliability = (
    tepid.summaries.Reliability.of([[0.8, 0.2]], [0]) + tepid.summaries.Reliability.zero()
)
worst: float = tepid.metrics.mce(part)
saved: float = tepid.metrics.excess_nll([0, 1], [[0.8, 0.2], [0.4, 0.6]], temperature=2.0)
found: tepid.metrics.Interval = tepid.metrics.bootstrap(tepid.metrics.nll, [0], [[0.8, 0.2]])
gain: tepid.metrics.Interval = tepid.metrics.difference(
    tepid.metrics.smooth_ece, [0], [[0.8, 0.2]], [[0.7, 0.3]], level=0.9, draws=100, seed=1
)
tepid.report.write(
    "report.html", logits, temperatures={"ours": temperature}, engine=tepid.Threads(1)
)
engine = tepid.Threads(2, lambda stage, done, total: None)
calibrator: tepid.sklearn.TemperatureCalibrator = tepid.sklearn.TemperatureCalibrator(
    accuracy=0.9
).fit(logits)
monitor: tepid.online.Monitor = tepid.online.Monitor.from_reference(
    logits, temperature, chunk=5, rules=tepid.online.Rules(half_life=3.0)
)
alerts: list[bool] = [row["alert"] for row in monitor.update(logits)]
calibrated = tepid.sklearn.CalibratedClassifier(object(), accuracy=0.9)
table: tuple[tepid.plots.Bin, ...] = tepid.plots.bins(tepid.summaries.Reliability.zero())
picture = tepid.plots.loss(curve, {"mine": temperature})
module: tepid.torch.Calibrated = tepid.torch.calibrate(object(), [logits], accuracy=0.9)
calibration: tepid.Temperature = module.calibration
plain = tepid.torch.fold(module, batch=logits)
folded_in: dict[str, float] = tepid.torch.recorded(tepid.torch.fold(plain, temperature, "head"))
service = tepid.torch.Warmup(object(), samples=2000, temperature=1.2)
summed: tepid.Temperature = tepid.uts(logits, engine=tepid.torch.AllReduced())
