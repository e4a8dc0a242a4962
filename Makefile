# Everything a fresh clone needs: Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: demo setup test coverage check docs format bench evidence decisions chaos fuzz guided-fuzz matrix wheel-test soak mutants clean

demo: $(VENV)/.demo ## The main job on embedded data.
	$(BIN)/tepid demo

setup: $(VENV)/.setup ## Every extra and the development tools.

test: $(VENV)/.setup ## Every gate and every test.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

coverage: $(VENV)/.setup ## Which lines the tests reach.
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

check: $(VENV)/.setup ## The gates and the fast tests, in under two minutes.
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow" -q --numprocesses auto --dist loadfile

docs: $(VENV)/.docs ## The documentation in site/, strictly: a dead link or an unknown name is an error.
	$(BIN)/zensical build --strict --clean

format: $(VENV)/.setup ## What ruff can mend by itself.
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/.setup ## The figures in benchmarks/results that need no other data.
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/reading.py
	TEPID_LARGE=1 $(BIN)/python -m pytest tests/test_large.py -q
	$(BIN)/python benchmarks/readme.py

evidence: $(VENV)/.setup ## Every kind of evidence on 39 real sets, compared with the design targets.
	@test -d ../shared/logits -a -d ../shared/llm || \
		{ echo "make evidence needs the real logits in ../shared/logits and ../shared/llm, which are not part of the repository."; exit 1; }
	$(BIN)/python benchmarks/evidence.py ../shared/logits ../shared/llm --figures docs/figures
	$(BIN)/python benchmarks/llm.py ../shared/llm

decisions: $(VENV)/.setup ## Thresholds, sets and expected performance on the same sets.
	@test -d ../shared/logits -a -d ../shared/llm || \
		{ echo "make decisions needs the real logits in ../shared/logits and ../shared/llm, which are not part of the repository."; exit 1; }
	$(BIN)/python benchmarks/decisions.py ../shared/logits ../shared/llm

chaos: $(VENV)/.setup ## A hundred kills and faults; the answer and the files must not know.
	$(BIN)/python scripts/chaos.py

fuzz: $(VENV)/.setup ## Damaged files for every reader; COUNT=2000 for a short run, otherwise the campaign.
	$(BIN)/python -m fuzz $(if $(COUNT),--count $(COUNT))

guided-fuzz: $(VENV)/.setup ## The same, guided by coverage (Linux on x86-64); COUNT=2000 for a short run.
	$(BIN)/python -m fuzz.guided $(if $(COUNT),--runs $(COUNT),--record)

soak: $(VENV)/.setup ## Ten million rows through a monitor.
	$(BIN)/python scripts/soak.py

mutants: $(VENV)/.mutants ## 600 mutants of the mathematics, each of which a test must notice; COUNT=60 for a short run.
	$(BIN)/python scripts/mutants.py $(if $(COUNT),--count $(COUNT))

matrix: $(VENV)/.matrix ## Lowest versions, other Pythons and processors; LARGE=1 also with the lowest torch.
	$(BIN)/python scripts/matrix.py --record $(if $(LARGE),--large)

wheel-test: $(VENV)/.matrix ## The built wheel, with src/ out of reach.
	$(BIN)/python scripts/matrix.py "no extras"

clean:
	rm -rf $(VENV) build dist site .cache .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[fast]'
	touch $@

$(VENV)/.setup: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) -e '.[fast,lab,torch,scaling,sklearn,plots,onnx,online,parquet,files,remote,dask,spark,dev,bench]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/.demo

$(VENV)/.mutants: $(VENV)/.setup
	$(INSTALL) -e '.[mutants]'
	touch $@

$(VENV)/.matrix: | $(VENV)/bin/python
	$(INSTALL) packaging
	touch $@
