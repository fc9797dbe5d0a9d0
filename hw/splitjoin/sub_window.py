"""What a sub-window offers to its region, however it is made."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.designs.splitjoin import SplitJoinParameters, second_column
from muntin.hw.splitjoin.layouts import ARRIVAL_BITS, result_layout
from muntin.hw.splitjoin.settings_signature import SettingsSignature


def command_layout(parameters: SplitJoinParameters) -> data.StructLayout:
    """The layout of a command to a sub-window: store a row, or probe with one.

    Places number the rows that a core stores of one stream, from 0 after `clear`, modulo
    ``2**place_bits``. Rows at the same place of all cores are a *block*: neighbours in the stream.

    Returns
    -------
    StructLayout
        ``probing``; ``null``, ``more``, ``mark``, ``key``, ``time``, ``lower``, ``upper``, ``row`` and the second
        column's as in `tagged_row`, ``more`` in outer order only;
        ``stop``, the place at which the row is stored, or behind the youngest that it is compared with;
        ``first``, the place of the oldest row of the window, as it is before the row that is stored; ``empty``,
        set where both are the same; ``early``, set where the window has a row in the block before `first` in
        another core; ``late``, set where it has one in the block at `stop`; ``before``, as in `result_layout`.
    """
    fields = {"probing": 1, "null": 1, "more": 1, "key": parameters.key_bits, "row": ROW_BITS}
    if parameters.time_bits:
        fields |= {"mark": 1, "time": parameters.time_bits}
    if parameters.bounds:
        fields |= {"lower": parameters.key_bits, "upper": parameters.key_bits}
    fields |= dict.fromkeys(second_column(parameters), parameters.key_bits)
    place = parameters.place_bits
    return data.StructLayout(
        fields | {"first": place, "stop": place, "empty": 1, "early": 1, "late": 1, "before": ARRIVAL_BITS}
    )


class SubWindowSignature(wiring.Signature):
    """The ports of a sub-window: the part of a region that holds rows and compares with them.

    Another structure can take the place of the nested loop: it stores rows by their places, and answers a
    probe with the rows between two places whose keys lie in a range. `BisortWindow` does so.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
        Empties the sub-window, which is not busy. Two cycles later the `first` at `i` is that of an empty window, and
        the next row comes then at the earliest.
    i : In(stream of command_layout)
        A probe sees what was stored before it and nothing later, however long it takes; a row may be stored
        while earlier probes are under way, once none of them needs what it overwrites. `ready` is set whenever
        nothing is there.
    o : Out(stream of result_layout)
        The results of each probe, in order of the stored rows' places: pairs, and punctuation as the order
        asks for it. All cores put out the same number of punctuations: in inner order one at each place
        that is a multiple of ``1 << every`` and strictly between the window's first and last block, ends
        included.
    busy : Out(1)
        Set while anything is under way.
    overflow : Out(1)
        Set for good, until `clear`, once a row was dropped from a time window before its time: pairs with it
        are missing.
    compared : Out(range(lanes + 1))
        Rows compared, a cycle later; for counters.
    """

    def __init__(self, parameters: SplitJoinParameters):
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(command_layout(parameters))),
                "o": Out(stream.Signature(result_layout())),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(parameters.lanes + 1)),
            }
        )
