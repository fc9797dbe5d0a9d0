"""Ethernet of boards: LiteEth's UDP core with a physical layer."""
