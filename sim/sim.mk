# Simulation targets, for the Makefile to include behind its own $(STAMP) and $(BIN).

DESIGN ?=
WAVES ?= 0

.PHONY: sim

sim: $(STAMP) ## the hardware's tests on Verilator (DESIGN=gather picks one, WAVES=1 writes waveforms below build/)
	@WAVES=$(WAVES) $(BIN)/python -m pytest tests/hw $(if $(DESIGN),-k '$(DESIGN)') $(SIM_ARGS)
