"""What OpenAI's own client has to get from a server, whatever runs it."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

CHAT: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,  # else the server lets the model write any arguments
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def chats_at_once_and_token_by_token(client: openai.OpenAI) -> None:
    ask: Any = {"model": "tiny", "messages": CHAT, "max_tokens": 8, "temperature": 0}
    whole = client.chat.completions.create(**ask)
    assert whole.usage
    assert whole.usage.completion_tokens == 8
    parts = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    texts = [choice.delta.content or "" for part in parts for choice in part.choices]
    assert len(texts) > 1
    assert "".join(texts) == whole.choices[0].message.content
    assert parts[-1].usage
    assert parts[-1].usage.completion_tokens == 8


def gets_the_call_of_a_tool(client: openai.OpenAI) -> None:
    choice: Any = {"type": "function", "function": {"name": "weather"}}
    # By chance and not by the likeliest token, which can be a space for ever: a random model needs up to 135 tokens.
    said = client.chat.completions.create(
        model="tiny", messages=CHAT, tools=[WEATHER], tool_choice=choice, max_tokens=400, temperature=1
    )
    (call,) = said.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) in ({"city": "Paris"}, {"city": "Rome"})


def is_refused_with_another_key(client: openai.OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="nobody").models.list()
