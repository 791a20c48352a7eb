"""A tool of your own: a class with a name, a description, a pydantic model of its arguments, and one async call."""

from typing import ClassVar, Literal

import gymnasium as gym
from pydantic import BaseModel, Field

import venus_env
from venus_env.protocol import ToolResult, render_answer, render_call
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


class CalculatorArguments(BaseModel):
    """Its JSON schema, descriptions included, is what the system prompt shows; calls that do not fit it never run."""

    operation: Literal["add", "subtract", "multiply", "divide"]
    numbers: list[float] = Field(min_length=2, max_length=2, description="The two numbers, in order")


class Calculator:
    """Calculates with two numbers."""

    name: ClassVar[str] = "calculator"
    aliases: ClassVar[tuple[str, ...]] = ("calc",)  # other names that a model may call it by
    description: ClassVar[str] = "Add, subtract, multiply or divide two numbers."
    arguments = CalculatorArguments

    async def __call__(self, arguments: CalculatorArguments) -> ToolResult:
        """Calculate. The call may await a server; a ToolError then ends the episode as an infrastructure failure."""
        a, b = arguments.numbers
        match arguments.operation:
            case "add":
                value = a + b
            case "subtract":
                value = a - b
            case "multiply":
                value = a * b
            case "divide" if b == 0:  # the policy's mistake: it is told, and the episode goes on
                return ToolResult("Cannot divide by zero.", ok=False)
            case "divide":
                value = a / b
        return ToolResult(f"{value:g}")


corpus = venus_env.open_corpus("embedded")
question = "How many more people live in Magdeburg than in Magadan?"
env = gym.make(
    "VenusResearch-v0",
    tasks=[Task(id="difference", question=question, answers=("151547",))],
    tools=[SearchTool(corpus), VisitTool(corpus), Calculator()],  # in place of search and visit alone
)

_, info = env.reset(seed=7)
system_prompt = info["new_messages"][0]["content"]  # it describes the three tools
replies = []
for turn in (
    render_call("I need both populations.", "search", {"query": ["Magdeburg population", "Magadan population"]}),
    render_call("Not like this.", "calculator", {"operation": "divide", "numbers": [244329, 0]}),
    render_call("Subtract.", "calculator", {"operation": "subtract", "numbers": [244329, 92782]}),
    render_answer("That is the answer.", "151547"),
):
    reply, reward, terminated, truncated, info = env.step(turn)
    replies.append(reply)
    print(f"{reward:6.2f}  {reply[:100]!r}")
