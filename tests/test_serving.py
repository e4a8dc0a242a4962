"""The example of a service: over HTTP, and as a person sees it in a browser."""

import importlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import tepid
from tepid.online import Monitor, read_log

# A service is started, and a browser: seconds before the first test.
pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[1] / "examples" / "serving.py"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def needed(name):
    """A package of the development extra, without which a developer may go on, and CI may not."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{name}, of the extra `dev`, is not installed")


def fetch(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def started(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, EXAMPLE, "--port", str(port)]
    command += ["--state", folder / "monitor.npz", "--log", folder / "chunks.jsonl"]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            fetch(f"{url}/metrics.json")
        except urllib.error.URLError:
            assert process.poll() is None, "the service ended before it answered"
            time.sleep(0.1)
        else:
            return process, url
    process.kill()
    raise TimeoutError("the service did not answer within a minute")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        needed(name)
    folder = tmp_path_factory.mktemp("service")
    process, url = started(folder)
    yield url, folder
    process.terminate()
    process.wait()


def numbers(url):
    return json.loads(fetch(f"{url}/metrics.json"))


def test_a_prediction_is_calibrated_and_counted(service):
    url, _ = service
    before = numbers(url)["reading"]["rows_total"]
    rows = tepid.demo.fashion()["logits"][8000:8040].astype(np.float64).tolist()
    answer = json.loads(fetch(f"{url}/predict", {"rows": rows}))
    assert len(answer["classes"]) == len(answer["confidences"]) == 40
    assert all(0.1 <= confidence <= 1 for confidence in answer["confidences"])
    assert numbers(url)["reading"]["rows_total"] == before + 40


@pytest.mark.parametrize("rows", [[], [[1.0, 2.0]], [[1.0] * 10, [1.0] * 9]])
def test_a_client_that_sends_nonsense_is_told_so(service, rows):
    url, _ = service
    with pytest.raises(urllib.error.HTTPError, match="422") as refused:
        fetch(f"{url}/predict", {"rows": rows})
    refused.value.close()


def test_drift_shows_in_every_output(service):
    url, folder = service
    fetch(f"{url}/traffic?rows=500", {})
    fetch(f"{url}/traffic?rows=500&fade=0.5", {})
    reading = numbers(url)["reading"]
    assert reading["alert"] is True
    text = fetch(f"{url}/metrics")
    assert "tepid_alert 1.0" in text
    assert f"tepid_rows_total {float(reading['rows_total'])}" in text
    rows = read_log(folder / "chunks.jsonl")
    assert rows[-1]["alert"] is True
    assert len(rows) == reading["chunks_total"]
    saved = Monitor.load(folder / "monitor.npz").reading()
    assert saved["rows_total"] == reading["rows_total"]


def test_a_restarted_service_remembers(tmp_path):
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        needed(name)
    process, url = started(tmp_path)
    fetch(f"{url}/traffic?rows=300", {})
    process.kill()
    process.wait()
    process, url = started(tmp_path)
    try:
        reading = numbers(url)["reading"]
        assert (reading["rows_total"], reading["chunks_total"]) == (300, 1)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def page(service):
    playwright = needed("playwright.sync_api")
    if not CHROMIUM.exists() and "CI" not in os.environ:
        pytest.skip(f"{CHROMIUM} is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page()
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(service[0])
        yield page
        browser.close()


def test_a_person_sees_the_numbers_and_the_alert(page, service):
    url, _ = service
    total = numbers(url)["reading"]["rows_total"] + 1000
    page.get_by_role("button", name="ordinary").click()
    page.get_by_role("button", name="ordinary").click()
    page.locator("#verdict", has_text="looks like the reference").wait_for()
    page.get_by_role("button", name="faded").click()
    page.get_by_role("button", name="faded").click()
    page.locator("#verdict.alarm", has_text="does not look like the reference").wait_for()
    page.locator("#rows", has_text=f"{total:,}").wait_for()
    reading = numbers(url)["reading"]
    assert page.locator("#implied").inner_text() == f"{100 * reading['implied_accuracy']:.1f} %"
    assert page.locator("#rows").inner_text() == f"{reading['rows_total']:,}"
    assert page.locator("#history circle").count() == min(reading["chunks_total"], 60)
    assert page.locator("#history circle.alert").count() == reading["alerts_total"]
    if "SCREENSHOT" in os.environ:
        page.screenshot(path=os.environ["SCREENSHOT"], full_page=True)


def test_the_page_refreshes_itself_and_asks_nobody_else(page, service):
    url, _ = service
    fetch(f"{url}/traffic?rows=7", {})
    total = f"{numbers(url)['reading']['rows_total']:,}"
    page.locator("#rows", has_text=total).wait_for()
    assert all(asked.startswith((url, "data:")) for asked in page.asked)
    assert page.said == []
