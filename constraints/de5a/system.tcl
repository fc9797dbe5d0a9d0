# The DE5a-Net's system for Platform Designer, behind a line that sets kernel_mhz: qsys-script runs it and writes
# muntin_system.qsys.
#
# Two DDR3 controllers, the kernel with a memory port on each, and a JTAG bridge by which a host (System Console) reaches
# the kernel's registers and, through a window that can be moved, each memory. Whoever wants PCIe builds the OpenCL
# library instead: there the vendor's shell has it.
#
# Sources: uob-mu3e/test_stand_frontend at 08f4096069e0e7eec6a1a3ce25fd9da98060d2e7, common/firmware/a10/ddr/ddr3/
# ip_emif_ddr3.tcl, for what the board's modules are (one rank, 64 bits, 16 row lines) and the names of parameters; JEDEC
# JESD79-3 for the timing of DDR3-1066F with chips of 4 Gb; the paper (PanJoin, section V) for DDR3-1066.
# No Quartus has run this.
package require qsys

create_system muntin_system
set_project_property DEVICE_FAMILY {Arria 10}
set_project_property DEVICE 10AX115N2F45E1SG

# Names of interfaces differ between releases ("emif_usr_clk", "emif_usr_clk_clock_source"): the one that begins so.
proc interface_of {instance prefix} {
    foreach name [get_instance_interfaces $instance] {
        if {[string match "$prefix*" $name]} {
            return "$instance.$name"
        }
    }
    error "$instance has no interface whose name begins with $prefix: [get_instance_interfaces $instance]"
}

proc export {name type direction instance prefix} {
    add_interface $name $type $direction
    set_interface_property $name EXPORT_OF [interface_of $instance $prefix]
}

proc map {host agent base} {
    add_connection $host $agent
    set_connection_parameter_value "$host/$agent" baseAddress $base
}

# The board's clock and reset, and the kernel's clock.
add_instance clk altera_clock_bridge
set_instance_parameter_value clk EXPLICIT_CLOCK_RATE 50000000
add_instance reset altera_reset_bridge
set_instance_parameter_value reset ACTIVE_LOW_RESET 1
set_instance_parameter_value reset SYNCHRONOUS_EDGES none
add_instance pll altera_iopll
set_instance_parameter_value pll gui_reference_clock_frequency 50.0
set_instance_parameter_value pll gui_output_clock_frequency0 $kernel_mhz
set_instance_parameter_value pll gui_use_locked true
export clk clock sink clk in_clk
export reset reset sink reset in_reset
export pll_locked conduit end pll locked
add_connection clk.out_clk [interface_of pll refclk]
add_connection reset.out_reset [interface_of pll reset]
set kernel_clock [interface_of pll outclk0]

# The reset of all that runs at the kernel's clock: the top holds it until the PLL has locked, and again where it loses
# its lock (hw/boards/de5a_platform.py).
add_instance kernel_reset altera_reset_bridge
set_instance_parameter_value kernel_reset ACTIVE_LOW_RESET 1
set_instance_parameter_value kernel_reset SYNCHRONOUS_EDGES none
export kernel_reset reset sink kernel_reset in_reset

# The kernel, and the bridge.
add_instance kernel muntin_kernel
add_instance jtag altera_jtag_avalon_master
foreach instance {kernel jtag} {
    add_connection $kernel_clock $instance.clk
    add_connection kernel_reset.out_reset $instance.[expr {$instance eq "jtag" ? "clk_reset" : "reset"}]
}
map jtag.master kernel.control 0x21000000

set number 0
foreach channel {a b} {
    set emif emif_$channel
    add_instance $emif altera_emif
    foreach {name value} {
        PROTOCOL_ENUM PROTOCOL_DDR3
        PHY_DDR3_RATE_ENUM RATE_QUARTER
        PHY_DDR3_MEM_CLK_FREQ_MHZ 533.333
        PHY_DDR3_DEFAULT_REF_CLK_FREQ false
        PHY_DDR3_USER_REF_CLK_FREQ_MHZ 266.667
        PHY_DDR3_IO_VOLTAGE 1.5
        MEM_DDR3_FORMAT_ENUM MEM_FORMAT_SODIMM
        MEM_DDR3_DQ_WIDTH 64
        MEM_DDR3_ROW_ADDR_WIDTH 16
        MEM_DDR3_COL_ADDR_WIDTH 10
        MEM_DDR3_SPEEDBIN_ENUM DDR3_SPEEDBIN_1066
        MEM_DDR3_TCL 7
        MEM_DDR3_WTCL 6
        MEM_DDR3_TRCD_NS 13.125
        MEM_DDR3_TRP_NS 13.125
        MEM_DDR3_TRAS_NS 37.5
        MEM_DDR3_TFAW_NS 37.5
        MEM_DDR3_TRFC_NS 260.0
        MEM_DDR3_TREFI_US 7.8
    } {
        set_instance_parameter_value $emif $name $value
    }
    export mem_$channel conduit end $emif mem
    export oct_$channel conduit end $emif oct
    export refclk_$channel clock sink $emif pll_ref_clk
    add_connection reset.out_reset [interface_of $emif global_reset]

    # A window of 256 MiB onto the memory, as JTAG's addresses have but 32 bits.
    set window window_$channel
    add_instance $window altera_address_span_extender
    foreach {name value} {
        DATA_WIDTH 32
        MASTER_ADDRESS_WIDTH 32
        SLAVE_ADDRESS_WIDTH 26
        BURSTCOUNT_WIDTH 1
        SUB_WINDOW_COUNT 1
        ENABLE_SLAVE_PORT true
    } {
        set_instance_parameter_value $window $name $value
    }
    add_connection $kernel_clock $window.clock
    add_connection kernel_reset.out_reset $window.reset
    map jtag.master $window.windowed_slave [format 0x%08x [expr {$number * 0x10000000}]]
    map jtag.master $window.cntl [format 0x%08x [expr {0x20000000 + $number * 0x10}]]

    set memory [interface_of $emif ctrl_amm]
    map $window.expanded_master $memory 0
    if {"axi_$number" in [get_instance_interfaces kernel]} {
        map kernel.axi_$number $memory 0
    }
    incr number
}

save_system muntin_system.qsys
