#!/usr/bin/env bash
# Does training work on this GPU, and how fast? SFT, then two IGPO steps of a Qwen3 model with random weights in the shape of
# Qwen3-0.6B, with a window of 16K tokens; sized for 8 minutes on one GPU. Prints tokens/s, where a step went, peak memory.
#
#   bench/gpu_smoke.sh                                     one GPU
#   SHRINK=8 WINDOW=4096 TURNS=5 PROMPTS=2 bench/gpu_smoke.sh      the same on a CPU, in a few minutes
#
# A random model writes no tool calls: its turns are malformed and about 24 tokens long, and an episode goes on for TURNS of
# them, some 100 tokens each with the answer to them. So rollouts are long, but earn penalties only; what is scored for
# information gain is the question itself.
#
# Settings, all from the environment so that a job scheduler can set them:
#   SHRINK   1       the model's width and depth are divided by this
#   WINDOW   16384   most tokens of an episode
#   TURNS    100     turns of an episode
#   PROMPTS  8       questions a step, 8 rollouts each
#   OUT      a new folder; run files are left there
#   LIMIT    480     seconds after which training is stopped
#   PYTHON   python3
# Further arguments are settings: bench/gpu_smoke.sh rollout.engine=transformers
set -euo pipefail
cd "$(dirname "$0")/.."

SHRINK="${SHRINK:-1}" WINDOW="${WINDOW:-16384}" TURNS="${TURNS:-100}" PROMPTS="${PROMPTS:-8}" LIMIT="${LIMIT:-480}" PYTHON="${PYTHON:-python3}"
OUT="${OUT:-$(mktemp -d)/gpu-smoke}"
SETTINGS=(
  run.dir="$OUT" model.path=models/none model.shape=qwen3-0.6b model.shrink="$SHRINK"
  env.prompt=full env.tool_style=full env.top_k=10 env.snippet_words=40 env.visit_tokens=1000
  env.max_turns="$TURNS" env.max_malformed="$TURNS" env.max_turn_tokens=1024 env.max_context_tokens="$WINDOW"
  data.oracle=32 sft.steps=4 sft.batch_size=8 sft.max_tokens="$WINDOW" sft.micro_batch_tokens="$WINDOW"
  rl.steps=2 rl.prompts="$PROMPTS" rl.group=8 rl.kl=0.001 rl.micro_batch_tokens="$WINDOW"
  "eval.stages=[]" "$@"
)

"$PYTHON" -m venus_rl.doctor "${SETTINGS[@]}" || { echo "gpu_smoke: the doctor found errors" >&2; exit 1; }
started=$SECONDS
timeout "$LIMIT" "$PYTHON" -m venus_rl.train "${SETTINGS[@]}"
echo "gpu_smoke: $((SECONDS - started)) s in all; run files in $OUT"
"$PYTHON" -m bench.step_split "$OUT"
