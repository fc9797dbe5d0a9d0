"""Area and clock rate of blocks, from place and route with the yowasp tools."""
