"""LangChain's ChatOpenAI against the gateway: what it got, as one line of JSON. GATEWAY_URL, GATEWAY_KEY and LIMITED_KEY in the environment."""

import json
import os

import openai
from langchain_openai import ChatOpenAI


def chat(model="tiny", key=os.environ["GATEWAY_KEY"]):
    return ChatOpenAI(model=model, base_url=os.environ["GATEWAY_URL"], api_key=key, max_tokens=3, max_retries=0)


def refusal(asking):
    try:
        asking()
    except openai.APIStatusError as error:
        return {"name": type(error).__name__, "status": error.status_code, "code": error.code}
    return None


limited = chat(key=os.environ["LIMITED_KEY"])
refused = [refusal(lambda: limited.invoke("Hello")) for _dummy in range(5)]
print(
    json.dumps(
        {
            "chat": chat().invoke("Hello").content,
            "stream": [part.content for part in chat().stream("Hello") if part.content],
            "wrong_key": refusal(lambda: chat(key="nobody" * 6).invoke("Hello")),
            "unknown_model": refusal(lambda: chat(model="nosuch").invoke("Hello")),
            "over_limit": next(filter(None, refused), None),
        }
    )
)
