"""The front end of the live rows in a real browser, without a notebook: what it shows is what Python holds."""

import base64
import random
import threading

import pytest

from agentkit.lab.live import FRONT, LiveRows
from agentkit.lab.rows import COLOURS, Rows

pytestmark = pytest.mark.needs("chromium")

# A widget model as anywidget hands it over, and a place for each view.
STAGE = """async (source) => {
  const { default: widget } = await import(source);
  const life = widget();
  window.asked = 0;
  const listeners = [];
  window.model = { on: (_, listener) => listeners.push(listener), off: () => {}, get: () => "label",
                   send: () => { window.asked += 1; } };
  window.hand = (message) => listeners.forEach((listener) => listener(message));
  life.initialize({ model });
  window.show = () => {
    const el = document.createElement("div");
    document.body.append(el);
    life.render({ model, el });
  };
}"""
READ = """() => [...document.querySelectorAll(".agentkit-rows")].map((box) => ({
  rows: [...box.querySelectorAll(".agentkit-row")].map((row) => [
    row.className, row.querySelector(".agentkit-who").firstChild?.textContent ?? "",
    row.querySelector(".agentkit-note")?.textContent ?? "", row.querySelector(".agentkit-text").textContent]),
  foot: box.querySelector(".agentkit-foot").textContent,
}))"""


@pytest.fixture
def front(page):
    page.goto("about:blank")
    page.add_style_tag(path=FRONT / "rows.css")
    source = "data:text/javascript;base64," + base64.b64encode(LiveRows._esm.encode()).decode()
    page.evaluate(STAGE, source)
    return page


def live_rows(monkeypatch):
    rows, sent = Rows("empty"), []
    live = LiveRows(rows, "test", threading.RLock())
    monkeypatch.setattr(live, "send", sent.append)
    return rows, live, sent


def expected(rows):
    shown = [[f"agentkit-row agentkit-{row.kind}", row.who, row.note, row.text] for row in rows.rows]
    return {"rows": shown, "foot": rows.footer}


def test_every_view_shows_what_python_holds_also_after_a_missed_message(front, monkeypatch):
    rows, live, sent = live_rows(monkeypatch)
    chance, keys, asked = random.Random(3), [], 0
    front.evaluate("show()")
    for turn in range(200):
        for _ in range(chance.randrange(4)):
            act = chance.random()
            if act < 0.3 or not keys:
                before = chance.choice(keys) if keys and chance.random() < 0.3 else None
                note = chance.choice(["", "0.1 s"])
                keys.append(rows.add(chance.choice(list(COLOURS)), "who", "<b>&", note, before=before))
            elif act < 0.75:
                rows.append(chance.choice(keys), chance.choice(["x ", "ไทย", "\n", "سلام", "<script>"]))
            elif act < 0.93:
                rows.set(chance.choice(keys), kind="error", text=chance.choice(["", "changed"]), note="")
            elif act < 0.96:
                rows.clear()
                keys = []
            else:
                rows.foot(f"turn {turn}")
        live.flush()
        if sent and chance.random() < 0.1:
            sent.pop()  # a page that was not there yet
        for message in sent:
            front.evaluate("(message) => hand(message)", message)
        sent.clear()
        if (now := front.evaluate("asked")) > asked:
            asked = now
            live._asked(live, {"want": "all"}, [])
            front.evaluate("(message) => hand(message)", sent.pop())
        if turn in (50, 120):
            front.evaluate("show()")
    live._asked(live, {"want": "all"}, [])
    live_now = front.evaluate(READ)
    front.evaluate("(message) => hand(message)", sent.pop())
    assert front.evaluate(READ) == [expected(rows)] * 3 and len(live_now) == 3
    assert asked > 3 and front.problems == []


def test_markup_stays_text_and_other_scripts_run_their_own_way(front, monkeypatch):
    rows, live, sent = live_rows(monkeypatch)
    rows.add("ai", "model", "<img src=x onerror=\"document.title='hit'\">")
    rows.add("ai", "model", "سلام دنیا")
    rows.append(rows.add("tool", "result", ""), "<b>bold</b>")
    live.flush()
    front.evaluate("show()")
    front.evaluate("(message) => hand(message)", sent[0])
    assert front.locator(".agentkit-list img, .agentkit-list b").count() == 0 and front.title() == ""
    way = "(row) => getComputedStyle(row).direction"
    assert [front.locator(".agentkit-text").nth(n).evaluate(way) for n in (0, 1)] == ["ltr", "rtl"]


def test_the_end_is_followed_unless_the_reader_scrolled_up(front, monkeypatch):
    rows, live, sent = live_rows(monkeypatch)
    front.evaluate("show()")
    place = "() => { const l = document.querySelector('.agentkit-list'); return l.scrollHeight - l.scrollTop - l.clientHeight; }"

    def more(count):
        for number in range(count):
            rows.add("ai", "model", f"line {number}")
            live.flush()
            front.evaluate("(message) => hand(message)", sent.pop())

    more(60)
    assert front.evaluate(place) < 3
    front.evaluate("document.querySelector('.agentkit-list').scrollTop = 100")
    more(5)
    assert front.evaluate("document.querySelector('.agentkit-list').scrollTop") == 100
