# Packs the RTL kernel as a Vitis object. In front of this stand the names: kernel, verilog, description, object, part,
# and masters, the memory-mapped ports.
#
# Source: AMD, Data Center Acceleration Using Vitis (UG1700), "Packaging the RTL Code as a Vitis XO": the interfaces, the
# clock that each is associated with, and package_xo with a kernel description file.

create_project -force -part $part $kernel ./project
add_files -norecurse $verilog
set_property top $kernel [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir ./ip -vendor muntin -library kernel -taxonomy /KernelIP -import_files
set core [ipx::current_core]
set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
foreach interface [concat s_axi_control $masters] {
    ipx::associate_bus_interfaces -busif $interface -clock ap_clk $core
}
# The linker gives the clock its rate.
ipx::remove_bus_parameter FREQ_HZ [ipx::get_bus_interfaces ap_clk -of_objects $core]
ipx::update_checksums $core
ipx::save_core $core

package_xo -force -xo_path $object -kernel_name $kernel -ip_directory ./ip -kernel_xml $description
