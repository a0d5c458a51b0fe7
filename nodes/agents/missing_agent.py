"""Route with which Load Agent explains in the browser, before a run, that its agent is missing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from ...backend.errors import SettingsError
from .. import host
from .folders import agent_spec, download_command


class AskAgent(BaseModel):
    """Question whether an agent is installed."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(max_length=500)


class AgentPlace(BaseModel):
    """Whether an agent was found, and the folder and the command that install it.

    `command` is "" if the agent's name is not a name on the Hugging Face Hub.
    """

    found: bool
    folder: str
    command: str


def place_of(asked: AskAgent) -> AgentPlace:
    """Return whether the agent is installed, and how to install it."""
    roots = host.agent_roots()
    try:
        agent_spec(asked.agent, roots)
        found = True
    except SettingsError:
        found = False
    return AgentPlace(found=found, folder=str(roots[0]), command=download_command(asked.agent, roots))


def agent_routes() -> list[host.Route]:
    """Return the route of Load Agent."""
    return [host.Route("GET", "/interleave-thinker/agent", AskAgent, place_of)]
