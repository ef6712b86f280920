// The slide of the microscope. `view` holds every step, so moving among them asks no kernel.
function node(tag, cls, text) {
  const made = document.createElement(tag);
  if (cls) made.className = cls;
  if (text !== undefined) made.textContent = text;
  return made;
}

function render({ model, el }) {
  el.classList.add("ak-microscope");
  const about = node("div", "ak-ms-quiet");
  const bar = node("div", "ak-ms-bar");
  const back = node("button", "", "◀");
  const on = node("button", "", "▶");
  const play = node("button", "", "play");
  back.title = "one chunk back";
  on.title = "one chunk on";
  const slider = node("input");
  slider.type = "range";
  slider.min = 0;
  slider.setAttribute("aria-label", "step");
  const place = node("span", "ak-ms-place");
  bar.append(back, on, slider, place, play);
  const states = node("div", "ak-ms-states");
  const raw = node("pre", "ak-ms-raw");
  const now = node("div", "ak-ms-now");
  const sofar = node("div", "ak-ms-sofar");
  const verdict = node("div", "ak-ms-quiet");
  const two = node("div", "ak-ms-two");
  two.append(now, sofar);
  el.replaceChildren(about, bar, states, raw, two, verdict);
  let timer = null;

  const frames = () => model.get("view").frames || [];
  const go = (step) => {
    model.set("step", Math.max(0, Math.min(step, frames().length - 1)));
    model.save_changes();
    draw();
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
  };
  back.onclick = () => go(model.get("step") - 1);
  on.onclick = () => go(model.get("step") + 1);
  slider.oninput = () => go(Number(slider.value));
  play.onclick = () => {
    if (timer) return stop();
    if (model.get("step") >= frames().length - 1) go(0);
    play.textContent = "pause";
    timer = setInterval(() => {
      go(model.get("step") + 1);
      if (model.get("step") >= frames().length - 1) stop();
    }, 120);
  };

  function told(kind, text, colours) {
    const row = node("div", "ak-ms-told");
    const label = node("b", "", kind);
    label.style.color = colours[kind] || "inherit";
    row.append(label, node("span", "", text));
    return row;
  }

  function draw() {
    const view = model.get("view");
    if (view.error !== undefined) {
      stop();
      about.textContent = "";
      bar.hidden = true;
      for (const part of [states, raw, now, sofar]) part.replaceChildren();
      verdict.textContent = view.error;
      return;
    }
    if (!view.frames) return;
    bar.hidden = false;
    const step = Math.min(model.get("step"), view.frames.length - 1);
    const [fed, done, state, events] = view.frames[step];
    const before = step ? view.frames[step - 1][0] : 0;
    about.textContent = view.about;
    slider.max = view.frames.length - 1;
    slider.value = step;
    const end = step === view.frames.length - 1;
    place.textContent = end ? "end of the turn" : `chunk ${step + 1} of ${view.frames.length - 1}`;

    const refused = events.some(([kind]) => kind === "refused");
    states.replaceChildren(...view.states.map((name) => {
      const pill = node("span", name === state ? "ak-ms-on" : "", name);
      return pill;
    }), node("span", refused ? "ak-ms-on ak-ms-bad" : "", "refused"));

    // Each character: told in its colour, held back, or still to come; the chunk that has just arrived is underlined.
    raw.replaceChildren();
    let at = 0;
    const cuts = [done, fed, before];
    for (const [kind, text] of view.kinds) {
      let rest = text;
      while (rest) {
        const next = Math.min(...cuts.filter((cut) => cut > at).map((cut) => cut - at), rest.length);
        const part = node("span", at >= fed ? "ak-ms-later" : at >= done ? "ak-ms-held" : "", rest.slice(0, next));
        if (at < done) part.style.color = view.colours[kind] || "inherit";
        if (at >= before && at < fed) part.classList.add("ak-ms-new");
        raw.append(part);
        at += next;
        rest = rest.slice(next);
      }
    }

    const held = view.kinds.map(([, text]) => text).join("").slice(done, fed);
    const shown = events.map(([kind, text]) => told(kind, text, view.colours));
    if (held) shown.push(told("held", held, view.colours));
    now.replaceChildren(node("b", "", end ? "The end makes certain" : "This chunk makes certain"), ...shown);
    if (!events.length) now.insertBefore(told("", "nothing", view.colours), now.children[1] || null);

    const sum = { thought: "", text: "", calls: [] };
    for (const [, , , list] of view.frames.slice(0, step + 1)) {
      for (const [kind, text] of list) {
        if (kind === "thought" || kind === "text") sum[kind] += text;
        else if (kind === "was a thought") {
          sum.thought += text;
          sum.text = "";
        } else sum.calls.push([kind, text]);
      }
    }
    const parts = [...["thought", "text"].filter((kind) => sum[kind]).map((kind) => [kind, sum[kind]]), ...sum.calls];
    sofar.replaceChildren(node("b", "", "The message so far"), ...parts.map(([kind, text]) => told(kind, text, view.colours)));
    verdict.textContent = view.verdict;
  }

  model.on("change:view", draw);
  model.on("change:step", draw);
  draw();
  return stop;
}

export default { render };
