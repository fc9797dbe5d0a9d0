"""Words of a command, by the names of its fields."""

from muntin.contract.registers import COMMAND_FIELDS, COMMAND_FLAGS, COMMAND_WORDS, Operation
from muntin.contract.registers import command_word as first_word


def command_words(operation: Operation, **fields: int) -> list[int]:
    """The words to push for a command; fields and flags by the names in `muntin.contract.registers`, others 0."""
    flags = sum(flag.mask for flag in COMMAND_FLAGS if fields.pop(flag.name, 0))
    words = [0] * COMMAND_WORDS
    words[0] = operation | flags
    sizes = {name: count for name, count, _ in COMMAND_FIELDS}
    for name, value in fields.items():
        for word in range(sizes[name]):
            words[first_word(name) + word] = value >> (32 * word) & 0xFFFFFFFF
    return words
