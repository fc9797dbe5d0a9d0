# Timing of the DE5a-Net beside the clocks of pins.csv, which are declared from there.
derive_pll_clocks
derive_clock_uncertainty
# Reset, buttons and LEDs are asynchronous; the two memory controllers' clocks and the kernel's meet in the
# interconnect's own clock crossings only, which bring their own constraints.
set_false_path -from [get_ports {cpu_reset_n* button*}]
set_false_path -to [get_ports {led*}]
