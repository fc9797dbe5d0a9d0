"""Several blocks side by side in one design."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out


class Bundle(wiring.Component):
    """Blocks that have nothing to do with each other, compiled at once.

    Parameters
    ----------
    blocks : dict of str to Component
        Their ports become those of the bundle, behind the block's name and two underscores.
    """

    def __init__(self, blocks: dict[str, wiring.Component]):
        self._blocks = blocks
        super().__init__({name: Out(block.signature) for name, block in blocks.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, block in self._blocks.items():
            m.submodules[name] = block
            wiring.connect(m, wiring.flipped(getattr(self, name)), block)
        return m
