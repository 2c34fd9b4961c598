# Everything runs in a virtual environment of its own, pinned by constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo chromium test test-slow mutants lint format speed clean

help:  ## show this
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,metaworld,mujoco,ray]"
	@touch $(INSTALLED)

demo: $(INSTALLED)  ## the main job on Point-Robot: about two minutes on two cores
	$(BIN)/idaq run point-robot --out runs/demo --resume

# The page is tested in a real browser: Debian's, installed where this user may install it.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  [ "$$(id -u)" = 0 ] || AS_ROOT="sudo -n"; \
	  echo "installing chromium"; \
	  $$AS_ROOT apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive $$AS_ROOT apt-get install -y -qq --no-install-recommends \
	    chromium fonts-dejavu-core >/dev/null; } || \
	  echo "no chromium, and it cannot be installed here: the tests of the page will be skipped"

# Most of the suite's time is compilation of small programs that run once, so it compiles with XLA's
# older emitters and hardly optimises. `make test-slow` and a plain pytest compile as idaq does.
QUICK_TO_COMPILE := --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0
test: $(INSTALLED) chromium  ## the test suite
	XLA_FLAGS="$(XLA_FLAGS) $(QUICK_TO_COMPILE)" $(BIN)/python -m pytest \
	  -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

test-slow: $(INSTALLED) chromium  ## the longer learning and fault tests
	$(BIN)/python -m pytest -m slow

mutants: $(INSTALLED)  ## how many small wrong changes the tests notice: ARGS="--room adapt --num 40"
	$(BIN)/python -m tests.mutants $(ARGS)

lint: $(INSTALLED)  ## lint, format check, strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

speed: $(INSTALLED)  ## updates per second against this machine's matmul rate
	$(BIN)/idaq bench speed

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
