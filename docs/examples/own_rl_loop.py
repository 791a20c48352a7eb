"""A complete reinforcement-learning loop on the Gymnasium API: REINFORCE over four scripted moves.

The policy is a table: how likely is each move with nothing read so far, after a search, after a page? In a few seconds
it learns to search, to read, and only then to answer. Your loop has a language model in place of table and moves.
"""

import re

import gymnasium as gym
import torch

import venus_env
from venus_env.protocol import render_answer, render_call

MOVES = ("search", "visit", "answer", "ramble")
ROWS = {None: 0, "search": 1, "visit": 2}  # of the table, by the tool that has last found something


def write_turn(move: str, question: str, read: list[str]) -> str:
    """The text of a move: what a language model would have generated."""
    text = "\n".join(read)
    if move == "search":
        return render_call("Look it up.", "search", {"query": [question]})
    if move == "visit":
        urls = re.findall(r"https?://\S+", text)
        return render_call("Read it.", "visit", {"url": urls[:1] or ["https://nowhere"], "goal": question})
    if move == "answer":  # the last name or number of the sentence that shares most words with the question
        sentences = re.split(r"(?<=[a-z])[.\n]", text)
        best = max(sentences, key=lambda sentence: len(set(question.lower().split()) & set(sentence.lower().split())))
        names = re.findall(r"(?:[A-Z][\w-]*(?: [A-Z][\w-]*)*)|\d+", best)
        return render_answer("I have read enough.", names[-1] if names else "I do not know")
    return "Hm."


torch.manual_seed(0)
tasks = [task for task in venus_env.load_tasks("embedded") if task.split == "train" and task.hops == 1]
env = gym.make("VenusResearch-v0", tasks=tasks, prompt="compact", max_turns=6)
logits = torch.zeros(len(ROWS), len(MOVES), requires_grad=True)
returns: list[float] = []
baseline = torch.zeros(len(ROWS))  # running mean of the return from each row of the table on

for episode in range(200):
    question, info = env.reset(seed=0 if episode == 0 else None)  # the text of an observation is what is new to read
    found, read, steps, rewards, done = None, [], [], [], False
    while not done:
        row = ROWS[found]
        choices = torch.distributions.Categorical(logits=logits[row])
        move = choices.sample()
        observation, reward, terminated, truncated, info = env.step(write_turn(MOVES[move], question, read))
        read.append(observation)
        if info["turn"].kind == "tool" and info["turn"].ok:
            found = info["turn"].tool
        steps.append((row, choices.log_prob(move)))
        rewards.append(reward)
        done = terminated or truncated
    if info["score"] is None:  # a tool or the judge broke down: this says nothing about the policy
        continue
    to_go = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -sum(log_prob * (value - baseline[row]) for (row, log_prob), value in zip(steps, to_go, strict=True))
    (gradient,) = torch.autograd.grad(loss, logits)
    with torch.no_grad():
        logits -= 0.15 * gradient
    for (row, _), value in zip(steps, to_go, strict=True):
        baseline[row] += 0.05 * (value - baseline[row])
    returns.append(sum(rewards))
    if episode % 50 == 49:
        print(f"episodes {episode - 48:3d} to {episode + 1}: mean return {sum(returns[-50:]) / 50:5.2f}")

for found, probabilities in zip(ROWS, logits.softmax(1).tolist(), strict=True):
    print(f"after {found}:", ", ".join(f"{move} {p:.2f}" for move, p in zip(MOVES, probabilities, strict=True)))
