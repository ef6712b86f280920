// Draws the rows of agentkit.lab.rows.Rows. The state is kept once for the model and drawn by each of its views.
export default () => {
  const state = { n: 0, rows: [], foot: "", stat: [null, ""] };
  const views = new Set();

  const at = (key) => state.rows.findIndex((row) => row.key === key);
  const steps = {
    clear() { state.rows = []; for (const view of views) view.list.replaceChildren(); },
    add(key, before, kind, who, text, note) {
      const place = before < 0 ? state.rows.length : at(before);
      const row = { key, kind, who, text, note };
      state.rows.splice(place, 0, row);
      for (const view of views) view.list.insertBefore(draw(row), view.list.children[place] ?? null);
    },
    text(key, more) {
      const place = at(key);
      state.rows[place].text += more;
      // A text node grows by what is new: the browser need not lay out the rest again.
      for (const view of views) view.list.children[place].lastChild.append(document.createTextNode(more));
    },
    set(key, kind, who, text, note) {
      const place = at(key);
      state.rows[place] = { key, kind, who, text, note };
      for (const view of views) view.list.children[place].replaceWith(draw(state.rows[place]));
    },
    foot(text) { state.foot = text; },
    stat(share, words) { state.stat = [share, words]; },
  };

  function element(name, kind, text) {
    const made = document.createElement(name);
    made.className = kind;
    if (text) made.textContent = text; // never markup: a model may write anything
    return made;
  }

  function draw(row) {
    const made = element("div", `agentkit-row agentkit-${row.kind}`);
    const who = element("span", "agentkit-who", row.who);
    if (row.note) who.append(element("small", "agentkit-note", row.note));
    const text = element("span", "agentkit-text", row.text);
    text.dir = "auto";
    made.append(who, text);
    return made;
  }

  function dress(view) {
    const [share, words] = state.stat;
    view.stat.hidden = !words;
    view.bar.hidden = share === null;
    view.bar.value = share ?? 0;
    view.words.textContent = words;
    view.foot.textContent = state.foot;
  }

  function follow(ops) {
    // Follow the end, unless the reader has scrolled up.
    const follows = [...views].filter((view) => view.list.scrollHeight - view.list.scrollTop - view.list.clientHeight < 30);
    for (const [name, ...values] of ops) steps[name](...values);
    for (const view of views) dress(view);
    for (const view of follows) view.list.scrollTop = view.list.scrollHeight;
  }

  return {
    initialize: listening(state, follow),
    render({ model, el }) {
      const view = {
        head: element("div", "agentkit-head", model.get("label")),
        stat: element("div", "agentkit-stat"),
        bar: element("progress", "agentkit-bar"),
        words: element("span", "agentkit-words"),
        list: element("div", "agentkit-list"),
        foot: element("div", "agentkit-foot"),
      };
      view.list.setAttribute("role", "log");
      view.list.setAttribute("aria-label", model.get("label"));
      view.list.tabIndex = 0;
      view.stat.append(view.bar, view.words);
      view.list.append(...state.rows.map(draw));
      const box = element("div", "agentkit-rows");
      box.append(view.head, view.stat, view.list, view.foot);
      el.append(box);
      dress(view);
      views.add(view);
      return () => views.delete(view);
    },
  };
};
