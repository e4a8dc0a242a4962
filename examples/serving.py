"""A small calibrated model behind HTTP, with a page that shows whether its calibration holds.

    pip install 'tepid[online]' fastapi uvicorn
    python examples/serving.py --state monitor.npz --log chunks.jsonl

The model is a softmax regression on the ten features of `tepid.demo`. Its temperature is fitted to
rows that it was not trained on and to its accuracy, counted on 500 of them. These rows are also the
monitor's reference. Open http://127.0.0.1:8000 and send ordinary rows first, then faded ones.
"""

import argparse
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

import tepid
from tepid.online import Monitor, Outputs, Rules, prometheus

PAGE = Path(__file__).with_name("serving.html")
TRAINING, REFERENCE, FRESH = slice(0, 3000), slice(3000, 8000), slice(8000, 10_000)
CHUNK, CHECKED = 250, 500


class Features(BaseModel):
    """The body of a request: ten numbers for each photo."""

    rows: list[list[float]]


class Regression:
    """Softmax regression by gradient descent."""

    def __init__(self, features: Any, labels: Any, steps: int = 400) -> None:
        self.mean, self.scale = features.mean(axis=0), features.std(axis=0)
        target = np.eye(int(labels.max()) + 1)[labels]
        x = self._inputs(features)
        self.weights = np.zeros((x.shape[1], target.shape[1]))
        for _ in range(steps):
            z = x @ self.weights
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            self.weights -= 2.0 * x.T @ (p - target) / len(x)

    def _inputs(self, features: Any) -> Any:
        return np.column_stack([(features - self.mean) / self.scale, np.ones(len(features))])

    def logits(self, features: Any) -> Any:
        """The logits of the model, without a temperature."""
        return (self._inputs(features) @ self.weights).astype(np.float32)


class Service:
    """The model, its temperature and its monitor, with the handlers of the HTTP routes."""

    def __init__(self, outputs: Outputs) -> None:
        data = tepid.demo.fashion()
        x, y = data["logits"].astype(np.float64), data["labels"].astype(np.int64)
        self.names, self.fresh = data["names"], x[FRESH]
        self.model = Regression(x[TRAINING], y[TRAINING])
        logits = self.model.logits(x[REFERENCE])
        right = int((logits.argmax(axis=1) == y[REFERENCE])[:CHECKED].sum())
        self.temperature = tepid.calibrate(logits, accuracy=tepid.Counted(right, CHECKED))
        if outputs.autosave is not None and Path(outputs.autosave).exists():
            self.monitor = Monitor.load(outputs.autosave, outputs=outputs)
            return
        self.monitor = Monitor.from_reference(
            logits,
            self.temperature,
            chunk=CHUNK,
            rules=Rules(false_alarms=0.01, reestimate=True),
            outputs=outputs,
        )

    def answer(self, features: Any) -> dict[str, list[Any]]:
        """The class and calibrated confidence of each row; updates the monitor."""
        logits = self.model.logits(features)
        probabilities = self.temperature(logits)
        self.monitor.update(logits)
        best = probabilities.argmax(axis=1)
        return {
            "classes": self.names[best].tolist(),
            "confidences": probabilities.max(axis=1).round(4).tolist(),
        }

    def predict(self, features: Features) -> dict[str, list[Any]]:
        """Handle a prediction request."""
        if not features.rows or {len(row) for row in features.rows} != {10}:
            raise HTTPException(422, "rows must be one or more lists of ten numbers")
        try:
            return self.answer(np.array(features.rows))
        except tepid.InputError as error:
            raise HTTPException(422, str(error)) from None

    def traffic(
        self,
        rows: Annotated[int, Query(ge=1, le=5000)] = CHUNK,
        fade: Annotated[float, Query(ge=0, le=1)] = 0.0,
    ) -> dict[str, int]:
        """Serve unseen rows as clients would send them, optionally faded."""
        rng = np.random.default_rng(self.monitor.reading()["rows_total"])
        features = self.fresh[rng.integers(0, len(self.fresh), rows)]
        features += fade * (self.model.mean - features)
        for start in range(0, rows, 50):
            self.answer(features[start : start + 50])
        return {"rows": rows}

    def metrics(self) -> Response:
        """The metrics for Prometheus."""
        return Response(prometheus.exposition(self.monitor), media_type="text/plain")

    def numbers(self) -> dict[str, Any]:
        """The numbers on the page."""
        edges, share = self.monitor.histogram
        return {
            "reading": self.monitor.reading(),
            "history": self.monitor.history[-60:],
            "histogram": {"edges": edges.tolist(), "share": share.tolist()},
            "reference": {"estimated_temperature": self.monitor.reference.estimate},
        }


def application(outputs: Outputs) -> FastAPI:
    service = Service(outputs)
    app = FastAPI(title="tepid: a calibrated service")
    app.add_api_route("/predict", service.predict, methods=["POST"])
    app.add_api_route("/traffic", service.traffic, methods=["POST"])
    app.add_api_route("/metrics", service.metrics)
    app.add_api_route("/metrics.json", service.numbers)
    app.add_api_route("/", lambda: PAGE.read_text("utf-8"), response_class=HTMLResponse)
    return app


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--port", type=int, default=8000)
    options.add_argument("--state", type=Path, help="file for the monitor's state")
    options.add_argument("--log", type=Path, help="file for one JSON line per chunk")
    chosen = options.parse_args()
    outputs = Outputs(autosave=chosen.state, log=chosen.log)
    uvicorn.run(application(outputs), host="127.0.0.1", port=chosen.port, log_level="warning")


if __name__ == "__main__":
    main()
