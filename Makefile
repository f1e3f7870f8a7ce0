# Thin wrappers: the programs are in tools/ and can be run without make.
.DEFAULT_GOAL := help
.PHONY: help venv docs-venv cloud test unit faults weather matrix together lowest kolla capability-matrix soak e2e tempest lint docs \
    dist deb rpm releasenotes support-matrix rule-table charm charm-options bench bench-cpu bench-sim depth \
    reduction \
    cover mutation clean

# Programs of the environment come first in PATH, but not for tools/bootstrap,
# which must not use the environment that it builds. All servers are on this
# machine, which no proxy can reach.
IN_VENV := PYTHONWARNINGS=ignore PATH="$(CURDIR)/.venv/bin:$$PATH" \
    NO_PROXY="127.0.0.1,localhost,::1,$$NO_PROXY" \
    no_proxy="127.0.0.1,localhost,::1,$$no_proxy"

help:  ## this text
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

venv:  ## build .venv, or bring it up to date
	@tools/bootstrap test

docs-venv:
	@tools/bootstrap docs

cloud: venv  ## a real Cinder on a simulated K2 (CHECK=1 PORT= SIM_PORT= REPLICATION=1 KEEP=1 STATE_DIR= RELEASE=)
	@$(IN_VENV) exec python -m $(if $(RELEASE),tools.releases.run $(RELEASE) -m tools.cloud,tools.cloud)

test: venv  ## every check: lint, and all suites but the long ones (RELEASE=2025.1: the suites on that release)
	@$(IN_VENV) exec python -m $(if $(RELEASE),tools.releases $(RELEASE),tools.run_tests)

unit: venv  ## unit tests alone, in 40 seconds, or some by name (TESTS=tests.unit.rest.test_limiter)
	@$(IN_VENV) exec python -m $(if $(TESTS),testtools.run $(TESTS),tools.run_unit)

faults: venv  ## the driver while requests fail, services die and arrays are lost, at each step
	@$(IN_VENV) exec python -m tools.run_tests --faults

# Deprecated: the former name.
weather: faults

matrix: venv  ## unit and functional tests on all releases of OpenStack (SLICE=1: some, IMPORTS=1: none, RELEASE=)
	@$(IN_VENV) exec python -m tools.releases $(if $(SLICE),--slice) \
	    $(if $(IMPORTS),--imports) $(RELEASE)

kolla: venv  ## the files of packaging/kolla, rendered by Kolla-Ansible and kolla-build (needs PyPI)
	@$(IN_VENV) exec python -m tools.kolla

together: venv  ## two releases of OpenStack at once, as in a rolling upgrade
	@$(IN_VENV) exec python -m tools.releases.together

lowest: venv  ## unit and some functional tests, and k2-sim's, with the lowest versions that they allow
	@$(IN_VENV) exec python -m tools.releases.lowest

capability-matrix: venv  ## the driver on arrays that lack one capability each, and the page about it (half an hour)
	@$(IN_VENV) exec python -m tools.capability_matrix

soak: venv  ## random operations on random arrays among objects of others (MINUTES=60 SEED= ROUND=)
	@$(IN_VENV) exec python -m tools.soak $(if $(MINUTES),--minutes $(MINUTES)) \
	    $(if $(SEED),--seed $(SEED)) $(if $(ROUND),--round $(ROUND))

e2e: venv  ## tests in a browser and in a guest (SUITES="browser guest"; DOCS=1: also copy pictures into the docs)
	@$(IN_VENV) exec python -m tools.run_e2e $(if $(DOCS),--docs) $(SUITES)

# SAMPLE is the deprecated name of QUICK.
tempest: venv  ## tempest on the driver (QUICK=1: in ten minutes; TESTS=expression RELEASE=)
	@$(IN_VENV) exec python -m $(if $(RELEASE),tools.releases.run $(RELEASE) -m tools.tempest,tools.tempest) \
	    $(if $(QUICK)$(SAMPLE),--quick) $(if $(TESTS),'$(TESTS)')

charm: venv  ## the Juju charm and the driver's wheel, into dist/
	@$(IN_VENV) exec python -m tools.pack_charm

dist: venv  ## sdists and wheels of the driver and k2-sim, into dist/ (CHECK=1: twice, and compare)
	@$(IN_VENV) exec python -m tools.packages.dist $(if $(CHECK),--check)

deb: venv  ## the Debian package, into dist/, tried with Debian 13's Cinder (needs root; a quarter of an hour at first)
	@$(IN_VENV) exec python -m tools.packages.deb

rpm: venv  ## the source RPM, into dist/, checked by rpmlint
	@$(IN_VENV) exec python -m tools.packages.rpm

lint: venv  ## the static checks alone
	@$(IN_VENV) tools/lint

docs: docs-venv  ## the documentation, into doc/build/html
	$(IN_VENV) sphinx-build -q -W --keep-going -b html doc/source doc/build/html

releasenotes: docs-venv  ## the release notes, into releasenotes/build/html
	$(IN_VENV) sphinx-build -q -W --keep-going -b html releasenotes/source releasenotes/build/html

support-matrix: venv  ## the support matrix in the docs, from the last "make test"
	@$(IN_VENV) exec python -m tools.support_matrix

rule-table: venv  ## the rules of the API in the docs, with the tests that cite them
	@$(IN_VENV) exec python -m tools.rule_table

charm-options: venv  ## the options of the charm in the docs, from its charmcraft.yaml
	@$(IN_VENV) exec python -m tools.charm_options

bench: venv  ## compare this driver with the in-tree one, on one simulated array
	@$(IN_VENV) exec python -m benchmarks

bench-cpu: venv  ## the CPU time of a create and an attach, compared with the in-tree driver
	@$(IN_VENV) exec python -m benchmarks.cpu --check

depth: venv  ## how deep the stack is when a create or an attach sends a request
	@$(IN_VENV) exec python -m testtools.run tests.functional.test_depth

reduction: venv  ## what deduplication and compression save: a database and its replicas
	@$(IN_VENV) exec python -m tools.reduction

bench-sim: venv  ## how fast the simulated array is, compared with its goals
	@$(IN_VENV) exec python -m tools.bench_sim

cover: venv  ## the coverage of the unit tests, into cover/
	$(IN_VENV) coverage erase
	$(IN_VENV) PYTHON="coverage run --source cinder_k2 --parallel-mode" stestr run
	$(IN_VENV) coverage combine -q
	$(IN_VENV) coverage html -q -d cover
	$(IN_VENV) coverage report

mutation: venv  ## how many changes of the driver its tests notice (CHANGED=REV PACKAGE= SAMPLE= SEED= MINUTES= FULL=1)
	@$(IN_VENV) exec python -m tools.mutation \
	    $(if $(CHANGED),--changed $(CHANGED)) \
	    $(if $(PACKAGE),--package $(PACKAGE)) \
	    $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FULL),--full)

clean:  ## remove everything that was built, including .venv and the state of clouds
	rm -rf .venv .stestr .coverage .coverage.* .hypothesis .mypy_cache cloud \
	    artifacts cover build dist doc/build releasenotes/build *.egg-info
