"""Several blocks side by side in one design."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


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
            self._connect(m, getattr(self, name), block)
        return m

    @staticmethod
    def _connect(m: Module, outer: wiring.PureInterface, block: wiring.Component) -> None:
        # Member by member: Amaranth cannot flip an interface that has an array of interfaces in it.
        for name, member in block.signature.members.items():
            ports, inner = getattr(outer, name), getattr(block, name)
            if member.is_port:
                m.d.comb += inner.eq(ports) if member.flow == In else ports.eq(inner)
                continue
            for port, part in zip(ports, inner, strict=True) if member.dimensions else ((ports, inner),):
                wiring.connect(m, wiring.flipped(port), part)
