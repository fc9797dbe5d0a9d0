# Fails where OBJECT, compiled for the instruction set ISA, defines a function that other objects may define too.
execute_process(COMMAND ${NM} --extern-only --defined-only ${OBJECT} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[^\n]*(isa|muntin_kernels)_${ISA}[^\n]*\n" "" shared "${symbols}")
if(shared)
  message(FATAL_ERROR "kernels.cpp, compiled for ${ISA}, which not every processor has, defines for all:\n${shared}"
    "Put it into namespace isa_${ISA} or an unnamed one, or do without (c++filt tells the name).")
endif()
