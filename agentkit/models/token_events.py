"""Tells each generated token as an event, in the channel that the call parser finds for it."""

import math

from agentkit import events


class TokenTeller:
    """Emits `events.Token`. Tokens that may begin a tag wait until the parser knows, so no markup shows as an answer."""

    def __init__(self):
        self._waiting: list = []
        self._channel = "answer"

    def saw(self, piece, before: str, parser) -> None:
        """Take one `engine.Piece`, the parser's state before it and the parser after it."""
        if not events.heard():
            return
        self._waiting.append(piece)
        # A closing tag belongs to what it closes, an opening one to what it opens.
        state = parser.state if before == "content" else before
        self._channel = "thought" if state == "reasoning" else "answer" if state == "content" else "call"
        if self._channel == "call" or not parser.pending:
            self.flush()

    def flush(self) -> None:
        """Emit what still waits."""
        for piece in self._waiting:
            chance = None if piece.logprob is None else math.exp(piece.logprob)
            events.emit(events.Token(text=piece.text, id=piece.token, probability=chance, origin=piece.origin,
                                     channel=self._channel))
        self._waiting.clear()
