# Each target creates .venv if it does not exist; nothing else must be installed by hand.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow mutants check lock audit pages bench bench-check docs site clean package

# The demo needs no tools of developers; where they are installed, nothing more is.
demo: $(if $(wildcard $(READY)),$(READY),$(VENV)/.ready-demo)
	$(BIN)/holdfast demo

test: $(READY)
ifdef COVERAGE
	$(BIN)/python -m pytest --cov --cov-report=
	@echo "Coverage of holdfast by the default tests: $$($(BIN)/python -m coverage report --format=total) %"
else
	$(BIN)/python -m pytest
endif

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# Put single bugs into a copy of the package and see the tests fail; about ten seconds for each of them.
mutants: $(READY)
	$(BIN)/python tests/mutants/run.py

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/prose.py
	$(BIN)/python docs/check_links.py

# Write requirements.lock: what is installed here, with the hashes of every file. It needs a package index.
lock: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/python .ci/lock

# Look for known vulnerabilities of the locked packages; it needs the public database.
PIP_AUDIT ?= $(BIN)/pip-audit
audit:
	$(PIP_AUDIT) --disable-pip --require-hashes --requirement requirements.lock

# Write every generated page, table and figure; `make test` fails on a difference.
pages: $(READY)
	$(BIN)/python docs/pages.py

# Measure speed and memory anew, on an idle machine: about 80 minutes, resumed if interrupted. `make pages` shows the results.
bench: $(READY) build/peers/.ready
	PYTHONPATH=.:build/peers $(BIN)/python benchmarks/all.py $(BENCH)

# Measure quickly, and say which figures lie outside the committed ones.
bench-check: $(READY) build/peers/.ready
	PYTHONPATH=.:build/peers $(BIN)/python benchmarks/all.py --quick --out build/bench $(BENCH)
	PYTHONPATH=. $(BIN)/python benchmarks/check.py build/bench

# Packages that benchmarks compare with, apart from the environment, whose packages they would replace.
build/peers/.ready: benchmarks/peers.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/peers --requirement benchmarks/peers.txt
	touch $@

docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/python docs/pages.py build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "The documentation: open site/index.html, or run 'make site' to serve it and to search it"

# Browsers do not let a page from the disk read the search index, so search needs a server.
site: docs
	@echo "The documentation: http://localhost:8000 (Ctrl-C ends it)"
	@$(BIN)/python -m http.server --bind localhost --directory site 8000

$(VENV)/.ready-demo: pyproject.toml constraints.txt
	@echo "Installing torch and holdfast into $(VENV): about 1 GB, a few minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[audio]"
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	# timm declares torchvision, whose wheels need another build of torch; its networks run without it.
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps timm
	touch $(READY)

# Build wheel and sdist, check their metadata, and play README and the first tutorial from the installed wheel, in an
# empty folder and with the words of the pages; it takes about five minutes. The wheel is installed
# without its dependencies into an empty environment, which finds torch and the others in $(VENV) but not holdfast.
PACKAGE := build/package
package: $(READY)
	rm -rf dist $(PACKAGE)
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --outdir dist . > build-package.log || { cat build-package.log; exit 1; }
	rm build-package.log
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip uninstall --quiet --yes setuptools  # that of Python 3.11 is too old for torch
	$(PACKAGE)/bin/python -m pip install --quiet --no-deps dist/*.whl
	$(BIN)/python -c "import sys; print(*(path for path in sys.path if path.endswith('site-packages')), sep='\n')" \
		> "$$($(PACKAGE)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	cd build && env -u PYTHONPATH ../docs/check_wheel.sh

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
