"""What the Messages panel shows of a run, made from its events alone: the messages as they enter the history.

A call is shown as soon as the model asked, a result as soon as it is known; the state change at the end of the step
then says where they stand among the other messages.
"""

from dataclasses import replace

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, messages_from_dict

from agentkit.events import Event, RunEnded, RunStarted, StepEnded, StepStarted, ToolCalled, ToolReturned
from agentkit.lab.rows import Row, Rows, as_json, call_text, took
from agentkit.loops.history import UNFINISHED
from agentkit.models.messages import invalid_calls


class MessageStory:
    """`rows` is what is shown: question, answers, calls and results, errors marked."""

    def __init__(self):
        self.rows = Rows("Nothing has run yet.")
        self._reset()

    def _reset(self) -> None:
        self._calls: list[tuple[str, int]] = []  # id and row of each call told, whose message is not known yet
        self._results: list[tuple[str, int]] = []  # the same for results
        self._waiting: dict[str, int] = {}  # calls without a result, by id
        self._answer: str | None = None  # what the assistant said last, if nothing followed

    def take(self, event: Event) -> None:
        """Follow one event."""
        match event:
            case RunStarted():
                self.rows.clear("")
                self._reset()
                self.rows.add("human", "you", event.question)
            case StepStarted():
                self.rows.foot(f"step {event.step}: {event.node}")
            case ToolCalled():
                self._call(event.id, call_row(event.name, event.args, event.invalid))
            case ToolReturned():
                self._results.append(
                    (event.id, self._result(event.id, event.content, event.status, took(event.seconds)))
                )
            case StepEnded():
                self._step_over(event.change.get("messages") or [], f"step {event.step}")
            case RunEnded():
                self._end(event)

    def _call(self, id: str, row: Row) -> None:
        key = self.rows.add(row.kind, row.who, row.text)
        self._calls.append((id, key))
        self._waiting[id] = key
        self._answer = None

    def _result(self, id: str, content: str, status: str, note: str = "") -> int:
        self._waiting.pop(id, None)
        self._answer = None
        row = result_row(content, status)
        return self.rows.add(row.kind, row.who, row.text, note)

    def _step_over(self, changes: object, note: str) -> None:
        """What a step added to the history; rows told before get their place in it."""
        results: list[tuple[int, Row]] = []
        for data in changes if isinstance(changes, list) else [changes]:
            message = as_message(data)
            if isinstance(message, ToolMessage) and (told := _claim(self._results, message.tool_call_id)) is not None:
                results.append((told, self.rows.get(told)))
            else:
                self._message(message, data, note)
        # Parallel tools end in any order; the history keeps the order of the calls.
        for key, row in zip(sorted(key for key, _ in results), [replace(row) for _, row in results]):
            if self.rows.get(key) != row:
                self.rows.set(key, **vars(row))

    def _message(self, message: BaseMessage | None, data: object, note: str) -> None:
        if message is None:
            self.rows.add("error", "unread", as_json(data))
        elif isinstance(message, AIMessage):
            self._ai(message, note)
        elif isinstance(message, ToolMessage):
            self._result(message.tool_call_id, str(message.text), message.status)
        elif message.type == "human":
            # The loop by hand tells the model a result as if the user said it; it stands there already.
            told = [self.rows.get(key).text for _, key in self._results]
            self._results.clear()
            if not any(str(message.text).endswith(text) for text in told):
                self.rows.add("system", "told", str(message.text))
        elif message.type != "remove":
            self.rows.add("system", message.type, str(message.text))

    def _ai(self, message: AIMessage, note: str) -> None:
        calls = [(id, row, _claim(self._calls, id)) for id, row in calls_of(message)]
        own = [key for _, _, key in calls if key is not None]
        if not calls:  # in the loop by hand a message holds no calls, they were read from its text: all told are its own
            own, self._calls = [key for _, key in self._calls], []
        if message.text or not (calls or own):
            self.rows.add("ai", "model", str(message.text), note, before=own[0] if own else None)
            self._answer = None if calls or own else str(message.text)
        for id, row, key in calls:
            if key is None:
                self._call(id, row)
        self._calls = [item for item in self._calls if item[0] not in {id for id, _, key in calls if key is None}]

    def _end(self, event: RunEnded) -> None:
        if event.reason != "interrupt":  # its open call is what the reply will answer
            for id in list(self._waiting):
                self._result(id, UNFINISHED, "error")
        # An answer stands there already: in the loop by hand with more around it.
        if self._answer is None or event.answer.strip() not in self._answer:
            kind = "ai" if event.reason in ("answer", "interrupt") else "error"
            self.rows.add(kind, "model", event.answer, event.reason)
        self.rows.foot(f"ended: {event.reason}")


def _claim(told: list[tuple[str, int]], id: str) -> int | None:
    """Take the first row of that id out of the list; a model may use an id twice."""
    for place, (known, key) in enumerate(told):
        if known == id:
            del told[place]
            return key
    return None


def rows_of(message: BaseMessage) -> list[Row]:
    """The rows of one message of a history."""
    if isinstance(message, ToolMessage):
        return [result_row(str(message.text), message.status)]
    rows = []
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    if message.text or not calls:
        kind, who = {"human": ("human", "you"), "ai": ("ai", "model")}.get(message.type, ("system", message.type))
        rows.append(Row(kind, who, str(message.text)))
    return rows + [row for _, row in calls]


def calls_of(message: AIMessage) -> list[tuple[str, Row]]:
    """The calls of a message, refused ones last: id and row of each."""
    ids = [call["id"] or "" for call in message.invalid_tool_calls]
    refused = invalid_calls(message)
    return [
        *((call["id"] or "", call_row(call["name"], call["args"])) for call in message.tool_calls),
        *(
            (ids[number] if number < len(ids) else "", call_row("", {"text": call["args"]}, call["error"] or "malformed"))
            for number, call in enumerate(refused)
        ),
    ]


def call_row(name: str, args: dict, invalid: str | None = None) -> Row:
    """A call, or one that was refused with what the model wrote."""
    if invalid:
        # In messages merged from chunks the reason also stands in front of what the model wrote.
        written = str(args.get("text", "")).removeprefix(invalid).lstrip("\n")
        return Row("error", "refused", f"{invalid}: {written}")
    return Row("call", "call", call_text(name, args))


def result_row(content: str, status: str) -> Row:
    """A tool's result, marked if it is an error."""
    return Row("error", "error", content) if status == "error" else Row("tool", "result", content)


def as_message(data: object) -> BaseMessage | None:
    """A message of a state change as LangChain's object; None for what is none."""
    try:
        return messages_from_dict([{"type": data["type"], "data": data}])[0]
    except Exception:  # noqa: BLE001 - a recording may hold anything, and pydantic raises its own kinds
        return None
