// Draws what agentkit.lab.graph_panel.LiveGraph sends: an SVG once, then the state of single nodes and edges.
// The state is kept once for the model and drawn by each of its views.
export default () => {
  const state = { n: 0, svg: "", nodes: new Map(), edges: new Set() };
  const views = new Set();
  const STATES = ["running", "done", "error"];

  const steps = {
    svg(text) { state.svg = text; for (const view of views) view.innerHTML = text; }, // made and escaped by agentkit
    idle() {
      state.nodes.clear();
      state.edges.clear();
      for (const view of views) {
        for (const node of view.querySelectorAll("[data-node]")) dress(node, "", 0);
        for (const edge of view.querySelectorAll("[data-edge]")) edge.classList.remove("ak-taken");
      }
    },
    node(name, kind, visits) {
      state.nodes.set(name, [kind, visits]);
      for (const view of views) show(view, name);
    },
    edge(number) {
      state.edges.add(number);
      for (const view of views) view.querySelector(`[data-edge="${number}"]`)?.classList.add("ak-taken");
    },
  };

  function dress(node, kind, visits) {
    for (const one of STATES) node.classList.toggle(`ak-${one}`, one === kind);
    // Its own count, not that of a node inside: those are its neighbours in the picture, never its children.
    node.querySelector(".ak-visits").textContent = visits ? `×${visits}` : "";
  }

  function show(view, name) {
    // Compared, not put into a selector: a node may have any name.
    for (const node of view.querySelectorAll("[data-node]")) {
      if (node.dataset.node === name) dress(node, ...state.nodes.get(name));
    }
  }

  function follow(ops) {
    for (const [name, ...values] of ops) steps[name](...values);
  }

  return {
    initialize: listening(state, follow),
    render({ model, el }) {
      const view = document.createElement("div");
      view.className = "agentkit-graph";
      view.tabIndex = 0;
      view.setAttribute("role", "group");
      view.setAttribute("aria-label", model.get("label"));
      view.innerHTML = state.svg;
      el.append(view);
      for (const name of state.nodes.keys()) show(view, name);
      for (const number of state.edges) view.querySelector(`[data-edge="${number}"]`)?.classList.add("ak-taken");
      views.add(view);
      return () => views.delete(view);
    },
  };
};
