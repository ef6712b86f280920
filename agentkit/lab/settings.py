"""`Settings`: what the next run will use. Panels change it and follow it; a workbench reads it when a run begins."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import traitlets
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agentkit.loops.agent import model_name, own_profile
from agentkit.loops.build import LOOPS, check_loop
from agentkit.models import catalog
from agentkit.models.errors import BadField
from agentkit.models.loading import load_model
from agentkit.models.profile import GenerationProfile


class Settings(traitlets.HasTraits):
    """The choices of a workbench, as traits, so that widgets can be linked to them.

    `tools` are the names of the tools that are switched on. `fields` are the profile's fields as the widgets hold them,
    unchecked: `profile()` checks them.
    """

    question = traitlets.Unicode()
    model = traitlets.Unicode()
    loop = traitlets.Unicode()
    tools = traitlets.Tuple()
    fields = traitlets.Dict()

    def __init__(
        self,
        model: BaseChatModel | str,
        tools: Sequence[BaseTool],
        loop: str,
        question: str,
        names: Sequence[str],
        profile: GenerationProfile | None,
    ):
        check_loop(loop)
        self._given: dict[str, BaseChatModel] = {}
        if not isinstance(model, str):
            if not isinstance(model, BaseChatModel):
                raise BadField(f"model is {model!r}; give a name such as 'bundled', or a LangChain chat model")
            self._given[model_name(model)] = model
            name = model_name(model)
        else:
            name = model
        self.all_tools = list(tools)
        self.models = tuple(dict.fromkeys([name, *names]))
        self.loops = tuple(LOOPS)
        self._loaded: dict[Any, BaseChatModel] = {}
        profile = profile or self._usual(name)
        super().__init__(
            question=question,
            model=name,
            loop=loop,
            tools=tuple(tool.name for tool in tools),
            fields=dataclasses.asdict(profile),
        )
        self.observe(self._follow_model, "model")

    def profile(self) -> GenerationProfile:
        """The profile that the fields make; BadField names a bad one."""
        return GenerationProfile(**self.fields)

    def set(self, profile: GenerationProfile) -> None:
        """Take over a whole profile."""
        self.fields = dataclasses.asdict(profile)

    def set_field(self, name: str, value: Any) -> None:
        """Change one field of the profile, as a widget gives it."""
        self.fields = {**self.fields, name: value}

    def load(self, profile: GenerationProfile) -> BaseChatModel:
        """The chosen model under `profile`, as far as it can follow one. Weights are loaded once."""
        name = self.model
        model = self._given.get(name) or self._loaded.get(name) or self._loaded.get((name, profile))
        if model is None:
            model = load_model(name, profile=profile)
            # A backend gets its profile when it is connected, so another profile is another connection.
            self._loaded[name if hasattr(model, "with_profile") else (name, profile)] = model
        if hasattr(model, "with_profile"):
            return model.with_profile(**dataclasses.asdict(profile))
        return model

    def chosen_tools(self) -> list[BaseTool]:
        """The tools that are switched on, in their order."""
        return [tool for tool in self.all_tools if tool.name in self.tools]

    def _usual(self, name: str) -> GenerationProfile:
        """The profile that a model runs under when none is given."""
        return own_profile(self._given[name]) if name in self._given else catalog.profile_for(name)

    def _follow_model(self, change: Any) -> None:
        # What was left at the old model's defaults goes to the new one's; what somebody chose stays.
        old, new = (dataclasses.asdict(self._usual(change[key])) for key in ("old", "new"))
        self.fields = {name: new[name] if value == old[name] else value for name, value in self.fields.items()}
