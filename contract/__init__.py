"""What the hardware and whoever drives it agree on, as data: designs, registers, commands, memory, links, boards.

Standard library only, and nothing of the other folders.
"""
