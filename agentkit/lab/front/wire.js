// The page's half of agentkit.lab.live.Live, put in front of each widget's own file. Messages are numbered: a page that
// missed one (it was opened later, or reloaded) asks for everything.
function listening(state, follow) {
  return ({ model }) => {
    const listen = (message) => {
      if (!message.all && message.n !== state.n + 1) {
        if (message.n > state.n) model.send({ want: "all" });
        return;
      }
      state.n = message.n;
      follow(message.ops);
    };
    model.on("msg:custom", listen);
    model.send({ want: "all" });
    return () => model.off("msg:custom", listen);
  };
}
