"""A command."""

from amaranth.lib import data

from muntin.contract.registers import COMMAND_FIELDS, COMMAND_FLAGS


class CommandLayout(data.StructLayout):
    """A command as the queue hands it out.

    The members are those of `COMMAND_FIELDS`, 32 bits a word, with the first word cut up: ``operation``, 8 bits;
    one bit for each of `COMMAND_FLAGS`; ``spare``; ``tag``, 16 bits.
    """

    def __init__(self):
        members: dict[str, int] = {"operation": 8}
        members |= {flag.name: flag.bits for flag in COMMAND_FLAGS}
        members |= {"spare": 8 - sum(flag.bits for flag in COMMAND_FLAGS), "tag": 16}
        members |= {name: 32 * words for name, words, _ in COMMAND_FIELDS if name != "operation"}
        super().__init__(members)
