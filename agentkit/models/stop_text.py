"""Stop sequences in a stream of text: hold back what may become one, cut at the first."""


class StopText:
    """`feed` returns the text that is certain; after `hit` nothing more comes. `rest` releases what was held back."""

    def __init__(self, stops: list[str]):
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.hit = False

    def feed(self, text: str) -> str:
        """Take a piece of text and return what may be shown."""
        if not self._stops or self.hit:
            return "" if self.hit else text
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.hit = True
            shown, self._held = self._held[:min(found)], ""
            return shown
        keep = max((n for stop in self._stops for n in range(1, len(stop)) if self._held.endswith(stop[:n])), default=0)
        shown, self._held = self._held[:len(self._held) - keep], self._held[len(self._held) - keep:]
        return shown

    def rest(self) -> str:
        """What was held back and turned out to be text."""
        held, self._held = self._held, ""
        return held
