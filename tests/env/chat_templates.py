"""A chat template as strict about thinking as that of Qwen3's thinking models, and what it does to a history."""

from collections.abc import Sequence

from venus_env.protocol.turns import Message

# Thoughts stay in assistant messages after the last real question only, and are laid out anew. A user message is a real
# question unless it is wrapped in <tool_response> from its first character to its last.
STRICT_TEMPLATE = """\
{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = messages|length - 1 - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and not (message.content.startswith('<tool_response>')
            and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}
        {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
{%- endif %}
"""


def strict_history(messages: Sequence[Message]) -> list[str]:
    """Texts of ``messages`` as the strict template shows them, written without looking at the template's source."""

    def is_question(message: Message) -> bool:
        text = message["content"]
        wrapped = text.startswith("<tool_response>") and text.endswith("</tool_response>")
        return message["role"] == "user" and not wrapped

    last = max(index for index, message in enumerate(messages) if is_question(message))
    texts = []
    for index, message in enumerate(messages):
        text = message["content"]
        if message["role"] == "assistant" and "</think>" in text:
            thought, rest = text.split("</think>")[0].split("<think>")[-1], text.split("</think>")[-1].lstrip("\n")
            kept = index > last and (thought.strip("\n") or index == len(messages) - 1)
            text = "<think>\n" + thought.strip("\n") + "\n</think>\n\n" + rest if kept else rest
        texts.append(text)
    return texts
