"""Ways between the streams of memory beats and those of items."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, ValueLike
from amaranth.lib import stream
from amaranth.lib.wiring import PureInterface

from muntin.hw.bisort.layouts import item_beat
from muntin.hw.bisort.resizer import Resizer


def items_of(m: Module, name: str, source: PureInterface, bits: int, *, flip: ValueLike = 0) -> PureInterface:
    """The items in the beats of a reader.

    Parameters
    ----------
    m : Module
    name : str
    source : stream of BeatLayout
    bits : int
        Of an item, a multiple of 8 and at most a beat.
    flip : value
        1 to invert the top bit of every item.

    Returns
    -------
    stream of item_beat
    """
    width = len(source.p.data) // bits
    sink = stream.Signature(item_beat(bits, width)).create(path=(name,))
    m.d.comb += [sink.valid.eq(source.valid), sink.p.last.eq(source.p.last), source.ready.eq(sink.ready)]
    for item in range(width):
        raw = source.p.data[item * bits : (item + 1) * bits]
        m.d.comb += [
            sink.p.items[item].eq(Cat(raw[:-1], raw[-1] ^ flip)),
            sink.p.keep[item].eq(source.p.keep[item * bits // 8]),
        ]
    return sink


def resized(m: Module, source: PureInterface, width: int) -> PureInterface:
    """A stream of item_beat with another number of items in a beat."""
    layout = source.p.shape()
    name = source.valid.name.removesuffix("__valid")
    resizer = Resizer(bits=layout["items"].shape.elem_shape, width_in=layout["keep"].width, width_out=width)
    m.submodules[f"{name}_resizer"] = resizer
    m.d.comb += [
        resizer.i.valid.eq(source.valid),
        resizer.i.payload.eq(source.payload),
        source.ready.eq(resizer.i.ready),
    ]
    return resizer.o


def written(m: Module, source: PureInterface, sink: PureInterface) -> None:
    """Sends beats of items to a writer of streams of unknown length, `sink` a stream of BeatLayout of as many bits."""
    layout = source.p.shape()
    size = layout["items"].shape.elem_shape // 8
    m.d.comb += [
        sink.valid.eq(source.valid),
        source.ready.eq(sink.ready),
        sink.p.data.eq(source.p.items.as_value()),
        sink.p.keep.eq(Cat(keep.replicate(size) for keep in source.p.keep)),
        sink.p.last.eq(source.p.last),
    ]


def beats_of(m: Module, source: PureInterface, sink: PureInterface, *, flip: ValueLike = 0) -> None:
    """Sends whole beats of items to a writer, `sink` a stream of as many bits; `flip` as in `items_of`."""
    layout = source.p.shape()
    m.d.comb += [
        sink.valid.eq(source.valid),
        sink.payload.eq(
            Cat(Cat(source.p.items[item][:-1], source.p.items[item][-1] ^ flip) for item in range(layout["keep"].width))
        ),
        source.ready.eq(sink.ready),
    ]
