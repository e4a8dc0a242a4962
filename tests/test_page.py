"""The report in a real browser: no request, no error, the right numbers, every way to read it."""

import os
import shutil

import numpy as np
import pytest

import tepid

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def _missing(what):
    """Skip without a browser, but fail in continuous integration."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is missing, and continuous integration must not skip the page")
    pytest.skip(f"{what} is missing, without which a page cannot be tried")


@pytest.fixture(scope="module")
def browser():
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    chromium = next(filter(None, found), None)
    if chromium is None:
        _missing("the command chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  # may be absent
    except ImportError:
        _missing("the package playwright")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def data(fashion):
    return fashion[0][:4000], fashion[1][:4000]


def few_labels(z, y):
    """The temperature of 25 labels."""
    known = np.full(len(y), -1)
    rows = np.random.default_rng(0).permutation(len(y))[:25]
    known[rows] = y[rows]
    return tepid.calibrate(z, labels=known)


@pytest.fixture(scope="module")
def reports(tmp_path_factory, data):
    """Reports with labels and pictures, without labels, of a few labels, and of many classes."""
    folder = tmp_path_factory.mktemp("reports")
    z, y = data
    demo = tepid.demo.fashion()
    rows = demo["image_rows"].tolist()
    images = {r: i for r, i in zip(rows, demo["images"], strict=True) if r < 4000}
    tepid.report.write(folder / "labels.html", z, labels=y, names=demo["names"], images=images)
    tepid.report.write(folder / "alone.html", z)
    tepid.report.write(folder / "checked.html", z, labels=y, temperatures=[few_labels(z, y)])
    rng = np.random.default_rng(5)
    posterior = 3 * rng.normal(size=(1500, 300))
    names = [f"kind {k}" for k in range(299)] + ["</script><img src=x onerror=alert(1)>"]
    tepid.report.write(folder / "many.html", 2 * posterior, names=names, title="Many")
    return folder


@pytest.fixture
def opened(browser, reports):
    """Open a report; requests and console messages are checked when the test is over."""
    contexts, bad = [], []

    def open_page(name="labels", size="desktop", scheme="light"):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: bad.append(message.text))
        page.on("pageerror", lambda error: bad.append(str(error)))
        page.on("dialog", lambda dialog: bad.append(dialog.message))
        page.on("request", lambda request: _leaves(request.url) and bad.append(request.url))
        page.goto((reports / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert bad == []


def _leaves(url):
    return not url.startswith(("file:", "data:"))


def _readings(page):
    names = ("confidence", "accuracy", "nll", "ece")
    shown = {n: page.locator(f"#read-{n}").inner_text() for n in names}
    return {n: float(text.removesuffix(" %")) for n, text in shown.items()}


def _agrees(page, z, y):
    """The numbers shown are those of the library at the temperature where the slider stands."""
    data = page.evaluate("data.stops.t[Number(slider.value)]")
    exact = tepid.summaries.Reliability.of_logits(z, y, temperature=data)
    shown = _readings(page)
    half = 0.5 + 0.05  # of the last digit, and the float32 of a row at the edge of its bin
    assert shown["confidence"] == pytest.approx(
        100 * tepid.metrics.confidence(exact), abs=half / 100
    )
    assert shown["accuracy"] == pytest.approx(100 * tepid.metrics.accuracy(exact), abs=half / 100)
    assert shown["nll"] == pytest.approx(tepid.metrics.nll(exact), abs=half / 1e4)
    assert shown["ece"] == pytest.approx(100 * tepid.metrics.ece(exact), abs=half / 100)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "alone", "many"])
def test_the_page_loads_without_an_error_and_asks_nobody(opened, name):
    page = opened(name)
    assert page.locator("h1").count() == 1
    assert page.locator("svg[role=img]").count() >= 3
    assert all(page.locator("svg[role=img]").evaluate_all("all => all.map(s => s.ariaLabel)"))


@pytest.mark.slow
def test_the_slider_moves_by_keyboard_and_the_numbers_follow(opened, data):
    z, y = data
    page = opened()
    start = _agrees(page, z, y)
    assert start == pytest.approx(tepid.temperature_scaling(z, y).value, rel=1e-6)
    page.locator("#slider").focus()
    seen = [start]
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        seen.append(_agrees(page, z, y))
    assert seen == sorted(set(seen))
    page.keyboard.press("Home")
    assert _agrees(page, z, y) == pytest.approx(0.25)
    assert page.locator("#temperature").inner_text() == "0.25"
    page.keyboard.press("End")
    assert _agrees(page, z, y) == pytest.approx(8)
    said = page.locator("#slider").get_attribute("aria-valuetext")
    assert said.startswith("T = 8, implied accuracy")
    assert (
        page.locator("#chart-reliability > svg")
        .get_attribute("aria-label")
        .startswith("Reliability diagram at T = 8")
    )


@pytest.mark.slow
def test_every_button_goes_to_its_temperature(opened, data):
    page = opened()
    buttons = page.locator("#jumps button")
    for i in range(buttons.count()):
        buttons.nth(i).click()
        name, _, value = buttons.nth(i).inner_text().partition(": ")
        assert page.locator("#temperature").inner_text() == value
        assert buttons.nth(i).get_attribute("aria-pressed") == "true"
        assert _agrees(page, *data) == pytest.approx(float(value), rel=1e-3), name


@pytest.mark.slow
def test_the_charts_follow_the_slider(opened):
    page = opened()
    page.locator("#slider").focus()

    def drawn():
        return [
            page.locator(f"#chart-{c} > svg").inner_html()
            for c in ("loss", "histogram", "reliability")
        ]

    before = drawn()
    page.keyboard.press("ArrowLeft")
    assert all(a != b for a, b in zip(before, drawn(), strict=True))


def _accepts(page, z, y):
    """The shares shown are those of the library at both sliders; returns T and the threshold."""
    t, threshold = page.evaluate(
        "[data.stops.t[Number(slider.value)], accept.edges[Number(thresholdSlider.value)]]"
    )
    confidence = tepid.Temperature(t, "t", samples=1, classes=10, implied_accuracy=1)(z).max(axis=1)
    accepted = confidence > threshold
    right = z.argmax(axis=1) == y
    exact = {"share": accepted.mean()}
    if accepted.any():
        exact |= {"expected": confidence[accepted].mean(), "realized": right[accepted].mean()}
    for name, value in exact.items():
        shown = page.locator(f"#read-{name}").inner_text()
        # Of 4000 rows, one at an edge in float32 is 0.025 %.
        assert float(shown.removesuffix(" %")) == pytest.approx(100 * value, abs=0.06), name
    assert float(page.locator("#threshold-value").inner_text()) == pytest.approx(
        threshold, abs=1e-4
    )
    return t, threshold


@pytest.mark.slow
def test_the_slider_of_the_threshold_moves_by_keyboard_and_by_itself(opened, data):
    z, y = data
    page = opened("checked")
    start = _accepts(page, z, y)
    page.locator("#threshold").focus()
    seen = [start]
    for key in ("ArrowRight", "ArrowRight", "PageUp", "Home", "End"):
        page.keyboard.press(key)
        seen.append(_accepts(page, z, y))
    assert len({threshold for _, threshold in seen}) == 6
    assert {t for t, _ in seen} == {start[0]}
    said = page.locator("#threshold").get_attribute("aria-valuetext")
    assert said.startswith("threshold 0.9993, accepted share")
    page.keyboard.press("Home")
    assert page.locator("#read-share").inner_text() == "100.00 %"


@pytest.mark.slow
def test_both_sliders_of_the_temperature_move_each_other_and_leave_the_threshold(opened, data):
    z, y = data
    page = opened("checked")
    t, threshold = _accepts(page, z, y)
    before = page.locator("#chart-accepted > svg").inner_html()
    page.locator("#slider-beside").focus()
    page.keyboard.press("ArrowRight")
    warmer, same = _accepts(page, z, y)
    assert warmer > t
    assert same == threshold
    assert page.locator("#chart-accepted > svg").inner_html() != before
    assert page.locator("#temperature").inner_text() == f"{warmer:.4g}"
    page.locator("#slider").focus()
    page.keyboard.press("ArrowLeft")
    assert _accepts(page, z, y) == (t, threshold)
    assert page.locator("#temperature-beside").inner_text() == f"{t:.4g}"


@pytest.mark.slow
def test_each_promise_goes_to_its_threshold_and_temperature(opened, data):
    z, y = data
    t = few_labels(z, y)
    page = opened("checked")
    buttons = page.locator("#promises button")
    assert buttons.count() == 6
    page.locator("#slider").focus()
    page.keyboard.press("End")
    for i in range(buttons.count()):
        text = buttons.nth(i).inner_text().replace("\u00a0", " ")
        found = t.threshold(z, precision=float(text.partition(" %")[0]) / 100)
        exact = found.cautious if "cautious" in text else found.accepted
        buttons.nth(i).press("Enter")
        at, threshold = _accepts(page, z, y)
        assert at == pytest.approx(t.value, rel=1e-6)
        assert 0 <= threshold - exact.threshold < 0.011  # the next stop of the slider
        assert buttons.nth(i).get_attribute("aria-pressed") == "true"


@pytest.mark.slow
def test_logits_alone_have_a_slider_without_a_promise(opened):
    page = opened("alone")
    assert page.locator("#promises button").count() == 0
    assert page.locator("#read-expected").count() == 0
    page.locator("#threshold").focus()
    before = page.locator("#read-share").inner_text()
    page.keyboard.press("End")
    assert page.locator("#read-share").inner_text() != before


@pytest.mark.slow
def test_empty_bins_are_blank_and_others_have_a_whisker(opened):
    page = opened()
    page.locator("#slider").focus()
    page.keyboard.press("End")
    counts = page.evaluate("data.stops.count[data.stops.t.length - 1]")
    bars = page.locator("#chart-reliability .bar").count()
    assert bars == sum(count > 0 for count in counts) < 15
    assert page.locator("#chart-reliability .whisker").count() == bars


@pytest.mark.slow
def test_the_page_can_be_used_from_the_keyboard_alone(opened):
    page = opened("many")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {
        "theme",
        "slider",
        "slider-beside",
        "threshold",
        "find",
        "more",
        "class",
        "scroll",
        "skip",
    } <= reached
    page.locator("#find").focus()
    page.keyboard.type("KIND 29")
    assert page.locator("#classes tbody tr").count() == 10
    assert "10 of 10 found of 300 classes" in page.locator("#found").inner_text()
    page.locator("#class").focus()
    page.keyboard.type("kind 250")
    assert "kind 250" in page.locator("#chart-division > svg").get_attribute("aria-label")


@pytest.mark.slow
def test_a_table_of_many_classes_is_no_wall(opened):
    page = opened("many")
    rows = page.locator("#classes tbody tr")
    assert rows.count() == 20
    predicted = [int(n) for n in rows.locator("td:nth-child(2)").all_inner_texts()]
    assert predicted == sorted(predicted, reverse=True)
    assert predicted[0] > 1
    page.locator("#more").click()
    assert rows.count() == 120
    heads = page.locator("#classes thead th")
    heads.nth(0).locator("button").click()
    assert heads.nth(0).get_attribute("aria-sort") == "ascending"
    assert rows.nth(0).locator("th").inner_text() == "kind 0"
    theta_at = heads.all_inner_texts().index("θ_k")
    heads.nth(theta_at).locator("button").press("Enter")
    assert heads.nth(theta_at).get_attribute("aria-sort") == "descending"
    last = f"td:nth-child({theta_at + 1})"
    theta = [float(t) for t in rows.locator(last).all_inner_texts()]
    assert theta == sorted(theta, reverse=True)
    heads.nth(theta_at).locator("button").press("Enter")
    assert float(rows.nth(0).locator(last).inner_text()) <= min(theta)


@pytest.mark.slow
def test_a_hostile_name_is_shown_as_it_is(opened):
    page = opened("many")
    page.locator("#find").fill("script")
    cell = page.locator("#classes tbody th")
    assert cell.inner_text() == "</script><img src=x onerror=alert(1)>"
    cell.locator("button").click()
    assert "onerror" in page.locator("#chart-division > svg").get_attribute("aria-label")
    assert page.locator("img").count() == 0


@pytest.mark.slow
def test_the_division_shows_every_row_once(opened, data):
    page = opened()
    page.locator("#class").select_option("6")
    label = page.locator("#chart-division > svg").get_attribute("aria-label")
    z = data[0]
    theta = tepid.summaries.Tails.of(z).thresholds()[6]
    assert f"{(z.argmax(axis=1) == 6).sum()} predicted so" in label
    assert f"{theta:.3g}" in label
    assert page.locator("#chart-division .drawn").count() > 2


@pytest.mark.slow
def test_pictures_are_decoded(opened):
    page = opened()
    sizes = page.locator("img").evaluate_all("all => all.map(i => [i.naturalWidth, i.alt !== ''])")
    assert len(sizes) >= 5
    assert all(size == [28, True] for size in sizes)


CONTRAST = """() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => {
    const [r, g, b] = parse(c).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92
      : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return getComputedStyle(e).backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  let worst = [99, ""];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const front = light(e instanceof SVGElement ? style.fill : style.color);
    const back = light(behind(e));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 90)];
  }
  return worst;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_text_can_be_read_and_nothing_is_cut_off(opened, scheme, size, tmp_path):
    page = opened("checked", size, scheme)
    worst, where = page.evaluate(CONTRAST)
    assert worst >= 4.5, where
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 28)"
    assert dark == (scheme == "dark")
    picture = page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert len(picture) > 20_000
    page.locator("#theme").click()
    turned = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 28)"
    assert turned != dark
    worst, where = page.evaluate(CONTRAST)
    assert worst >= 4.5, where


OVERLAPS = """() => [...document.querySelectorAll("svg[role=img]")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect();
    return { said: text.textContent, left, right: right - 1, top, bottom: bottom - 3 };
  });
  const within = (a, b) => a.left < b.right && a.top < b.bottom;
  const meet = (a, b) => within(a, b) && within(b, a);
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b))
    .map((b) => a.said + " | " + b.said));
})"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels", "alone", "checked", "many"])
def test_the_labels_of_a_chart_do_not_overlap(opened, name):
    for size in SIZES:
        assert opened(name, size).evaluate(OVERLAPS) == []


@pytest.mark.slow
def test_the_report_prints(opened):
    page = opened("labels", "desktop", "dark")
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    assert len(content) > 30_000
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#slider").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details table").first.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
