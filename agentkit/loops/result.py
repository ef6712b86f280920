"""What a run gives back, and what it cost."""

from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage


@dataclass(frozen=True)
class RunResult:
    """One finished run: `answer` is what the user should read, whatever the `reason` (see `events.RunEnded`).

    `messages` is the whole history of the thread in a valid form. `error` is the exception behind reason "error".
    """

    answer: str
    messages: list[BaseMessage]
    reason: str
    usage: dict
    seconds: float
    error: BaseException | None = None


class Usage:
    """Adds up what the model calls of a run cost."""

    def __init__(self):
        self.model_calls = self.tool_calls = 0
        self.prompt = self.cached = self.generated = self.thinking = 0
        self._timed_tokens, self._seconds = 0, 0.0

    def add(self, message: AIMessage, seconds: float | None) -> None:
        """Count one answer of the model. `seconds` of writing are used where the model did not measure its own rate."""
        self.model_calls += 1
        usage = message.usage_metadata or {}
        generated = usage.get("output_tokens", 0)
        self.prompt += usage.get("input_tokens", 0)
        self.cached += (usage.get("input_token_details") or {}).get("cache_read", 0)
        self.generated += generated
        self.thinking += (usage.get("output_token_details") or {}).get("reasoning", 0)
        rate = message.response_metadata.get("tokens_per_second")
        seconds = generated / rate if rate else seconds
        if generated and seconds:
            self._timed_tokens += generated
            self._seconds += seconds

    def as_dict(self) -> dict:
        """JSON-ready; `tokens_per_second` is None where nothing was measured."""
        rate = round(self._timed_tokens / self._seconds, 2) if self._seconds else None
        return {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "prompt_tokens": self.prompt,
            "cached_tokens": self.cached,
            "generated_tokens": self.generated,
            "thinking_tokens": self.thinking,
            "tokens_per_second": rate,
        }
