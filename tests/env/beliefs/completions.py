"""A small OpenAI-compatible completions server on the loopback interface, over a real model of ``transformers``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

Reply = tuple[int, Any]


class CompletionsServer:
    """Answers ``GET /v1/models`` and ``POST /v1/completions`` as vLLM does.

    Attributes:
        requests: Bodies of the completions asked for.
        headers: Their headers.
        models: What is served, ``(id, root)``.
        reply: May answer in the model's place: takes the number of the request, from 1, and its body.
        most_at_once: Most requests that were under way at the same time.
    """

    def __init__(self, model: Any, tokenizer: Any, root: str = "") -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.models = [("tiny", root)]
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.reply: Callable[[int, dict[str, Any]], Reply | None] = lambda number, body: None
        self.most_at_once = 0
        self._now = 0
        self._count = threading.Lock()
        self._turn = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, {"data": [{"id": name, "root": root} for name, root in server.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._count:
                    server.requests.append(body)
                    server.headers.append(dict(self.headers))
                    number = len(server.requests)
                    server._now += 1
                    server.most_at_once = max(server.most_at_once, server._now)
                reply = server.reply(number, body) or (200, server.complete(body))
                with server._count:
                    server._now -= 1
                self._send(*reply)

            def _send(self, status: int, payload: Any) -> None:
                data = payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
                with suppress(BrokenPipeError, ConnectionResetError):  # the client may have run out of patience
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """One token after the prompt, with what was asked for about the prompt."""
        prompt = body["prompt"]
        ids = self.tokenizer.encode(prompt, add_special_tokens=False) if isinstance(prompt, str) else list(prompt)
        with self._turn, torch.no_grad():
            logprobs = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        allowed = body.get("allowed_token_ids")
        sampled = allowed[0] if allowed else int(logprobs[-1].argmax())
        values = [None, *(float(logprobs[at - 1, token]) for at, token in enumerate(ids) if at)]
        choice: dict[str, Any] = {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
        if body.get("logprobs") is not None:
            tokens, values_shown = [sampled], [float(logprobs[-1, sampled])]
            if body.get("echo"):
                tokens, values_shown = [*ids, sampled], [*values, *values_shown]
            texts = [self.tokenizer.decode([token]) for token in tokens]
            offsets = [sum(map(len, texts[:index])) for index in range(len(texts))]
            if body.get("return_tokens_as_token_ids"):
                texts = [f"token_id:{token}" for token in tokens]
            choice["logprobs"] = {"tokens": texts, "token_logprobs": values_shown, "text_offset": offsets}
        if body.get("prompt_logprobs") is not None:
            choice["prompt_logprobs"] = [
                None if value is None else {str(token): {"logprob": value}}
                for token, value in zip(ids, values, strict=True)
            ]
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1}
        return {"object": "text_completion", "model": body["model"], "choices": [choice], "usage": usage}


@contextmanager
def serve(model: Any, tokenizer: Any, root: str = "") -> Iterator[CompletionsServer]:
    server = CompletionsServer(model, tokenizer, root)
    try:
        yield server
    finally:
        server.close()
