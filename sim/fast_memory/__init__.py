"""A memory without DRAM timing, for small tests on simulated boards."""
