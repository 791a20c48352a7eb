from venus_env.envs.transcript import transcript
from venus_env.protocol.prompt import wrap_tool_response
from venus_env.protocol.turns import Message


def test_transcript() -> None:
    messages = [
        Message(role="system", content="You answer."),
        Message(role="user", content="Who?"),
        Message(role="assistant", content="<answer>I\nme</answer>"),
        Message(role="user", content=wrap_tool_response("x" * 12)),
    ]
    assert transcript(messages, max_chars=10) == (
        "[prompt]\n  You answer… (1 more characters)\n\n"
        "[question]\n  Who?\n\n"
        "[policy]\n  <answer>I\n  … (11 more characters)\n\n"
        "[tool]\n  xxxxxxxxxx… (2 more characters)\n"
    )
    assert "  me</answer>" in transcript(messages)
