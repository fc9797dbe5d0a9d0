# Simulation targets, for the Makefile to include behind its own $(STAMP) and $(BIN).

DESIGN ?=
WAVES ?= 0
# With NETLIST=1 the benches run on what blocks and kernels become after synthesis for an ECP5.
NETLIST ?= 0
# With COVERAGE=1 they count the lines and branches that they take.
COVERAGE ?= 0
# With POWER_UP=1 registers begin with values that the seed draws.
POWER_UP ?= 0
SIM_ENVIRONMENT = POWER_UP=$(POWER_UP) $(if $(filter 11,$(NETLIST)$(COVERAGE)),$(error give NETLIST=1 or COVERAGE=1: a netlist has no lines to count))WAVES=$(WAVES) NETLIST=$(NETLIST) COVERAGE=$(COVERAGE)

.PHONY: sim sim-full bench-sim

# Built models and verdicts of proofs are kept below build/, by what they are made from; `make clean` removes them.
SIM_TEST := -m pytest -n $(TEST_JOBS) --dist worksteal -p tests.hw.by_design $(if $(filter 1,$(NETLIST) $(COVERAGE)),--timeout 0)

sim: $(STAMP) ## the hardware's tests and proofs, a line for each design (DESIGN=gather picks one, WAVES=1 writes waveforms, NETLIST=1 runs netlists, COVERAGE=1 counts lines, POWER_UP=1 draws what registers hold first)
	$(COMPILE_TOOLS)
	@$(SIM_ENVIRONMENT) $(BIN)/python $(SIM_TEST) tests/hw $(if $(DESIGN),-k '$(DESIGN)') $(SIM_ARGS)
	@$(if $(filter 1,$(COVERAGE)),$(BIN)/python -m muntin.sim.coverage)

sim-full: $(STAMP) ## the same and the simulated boards, at full length, and deeper proofs
	$(COMPILE_TOOLS)
	@$(SIM_ENVIRONMENT) $(BIN)/python $(SIM_TEST) --full tests/hw tests/sim $(if $(DESIGN),-k '$(DESIGN)') $(SIM_ARGS)

bench-sim: $(STAMP) ## figures of the hardware in exact cycles, beside what its memory can do; half an hour
	$(COMPILE_TOOLS)
	@$(BIN)/python -m bench.hardware merger
	@$(BIN)/python -m bench.hardware copy
	@$(BIN)/python -m bench.hardware kernel
	@$(BIN)/python -m bench.hardware lanes
	@$(BIN)/python -m bench.hardware splitjoin
	@$(BIN)/python -m bench.simulated_join --cycles-window 4K --cycles-window 64K --cycles-window 1M
	@$(BIN)/python -m bench.joins_by_window
