"""Take the screenshots of the report that the documentation shows, in docs/figures.

    python scripts/picture_report.py

Needs playwright, the chromium of the system, and Pillow, which makes the files small.
"""

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import tepid

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
# File, width and height of the window, color scheme, and the element at its top.
SCREENSHOTS = (
    ("report-light.png", 1120, 1425, "light", "body"),
    ("report-dark.png", 1120, 1120, "dark", "#classes-section"),
    ("report-rows.png", 1120, 612, "light", "#rows"),
    ("report-phone.png", 390, 844, "light", "#slider-section"),
)


def write_report(path: Path) -> None:
    data = tepid.demo.fashion()
    logits, labels = data["logits"], data["labels"]
    chosen = np.random.default_rng(0).choice(len(labels), 25, replace=False)
    known = np.full(len(labels), -1)
    known[chosen] = labels[chosen]
    found = tepid.calibrate(logits, known, accuracy=tepid.Counted(186, 200))
    tepid.report.write(
        path,
        logits,
        temperatures={"25 labels and 186 of 200 right": found},
        names=data["names"],
        images=dict(zip(data["image_rows"].tolist(), data["images"], strict=True)),
        title="Fashion-MNIST, a small network",
    )


def take_screenshot(
    browser: Browser, report: Path, screenshot: tuple[str, int, int, str, str]
) -> None:
    name, width, height, scheme, top = screenshot
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(report.as_uri())
    page.locator(top).evaluate("element => element.scrollIntoView()")
    shot = Image.open(io.BytesIO(page.screenshot()))
    shot.convert("RGB").quantize(255, dither=Image.Dither.NONE).save(FIGURES / name, optimize=True)
    page.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        write_report(report)
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for screenshot in SCREENSHOTS:
            take_screenshot(browser, report, screenshot)
        browser.close()


if __name__ == "__main__":
    main()
