# `make setup` fills .venv from the pinned list; every other target stands on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What live tests need beside Python: 6 MB to get, 28 MB on disk. Without root they skip, and say why.
DEBIAN := ethtool frr iproute2 iputils-ping mininet net-tools nftables procps redis-server

.PHONY: setup debian collective demo figures test lint types borders unit fuzz clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# PyTorch, for sglb/collective and its tests alone.
collective: $(VENV)/.collective

$(VENV)/.collective: $(VENV)/.ready requirements-collective.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-collective.txt
	@# Only the file of its digits is used, so it comes without what it stands on.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps scikit-learn==1.9.1
	@touch $@

# The mark is also left where this cannot be done: the tests tell what is missing.
debian: $(VENV)/.debian

$(VENV)/.debian: $(VENV)/.ready Makefile
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		dpkg-query -W $(DEBIAN) >/dev/null 2>&1 || \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN) \
			>/dev/null || echo "live tests will skip: apt-get install $(DEBIAN)" >&2; fi
	@touch $@

demo: setup
	$(BIN)/sglb run examples/leafspine-failover.yaml

# Runs what README and docs/savings.md show again and rewrites their tables.
figures: setup
	$(BIN)/python bench/figures.py
	$(BIN)/python bench/savings.py

test: lint types borders unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# pytest would tell at the end of a run only.
	@twice=$$(find tests -name 'test_*.py' -exec basename {} \; | sort | uniq -d); [ -z "$$twice" ] || \
		{ echo "test files of one name: $$twice" >&2; exit 1; }

types: collective
	$(BIN)/mypy

borders: setup
	$(BIN)/lint-imports

# Live fabrics come last, by themselves: late heartbeats are faults to them.
unit: collective debian
	$(BIN)/pytest -n auto -m "not alone"
	$(BIN)/pytest -m alone

# The tests with examples that nobody has seen before.
fuzz: collective debian
	HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -n auto -m "not alone"

clean:
	rm -rf $(VENV) out build *.egg-info
