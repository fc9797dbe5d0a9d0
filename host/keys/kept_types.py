"""The types in which rows are kept, and columns of any type as these and back.

Arrow cannot pick rows of every type, nor join columns of every type one behind the other. Kept are types of the same
values with which it can: neither views nor run-end encoding, and dictionaries whose indices number all values of a
window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.arrow_versions import is_binary_view, is_large_list_view, is_list_view, is_string_view

MAX_CHUNK_BYTES = (1 << 31) - 1
"""Bytes of values of varying size that one chunk may have: offsets of 32 bits number so many."""

_Leaf = Callable[[pa.Array, pa.DataType], pa.Array]


def kept_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of rows as they are kept."""
    return pa.schema([field.with_type(kept_type(field.type)) for field in schema])


def kept(table: pa.Table) -> pa.Table:
    """Rows as they are kept. Raises ArrowException where `check_type` does."""
    schema = kept_schema(table.schema)
    columns = [_kept_values(table.column(at), field.type) for at, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def is_kept_as_is(kind: pa.DataType) -> bool:
    """Whether `kept` has nothing to do for columns of a type."""
    return not pa.types.is_nested(kind) and _is_kept_type(kind)


def _is_kept_type(kind: pa.DataType) -> bool:
    """Whether all chunks of a type that have rows are kept as they are."""
    rebuilt = any(pa.types.is_dictionary(part) or pa.types.is_union(part) for part in types_in(kind))
    return kept_type(kind).equals(kind) and not rebuilt


def check_type(kind: pa.DataType) -> None:
    """Raises ArrowException if rows of a type cannot be picked and given out again."""
    if not pa.types.is_union(kind):
        for part in types_in(kind):
            if pa.types.is_dictionary(part) and not _is_plain(part.value_type):
                raise pa.ArrowNotImplementedError(f"Unification of {part.value_type} dictionaries is not implemented")
            if pa.types.is_union(part):
                check_type(part)
    elif any(map(pa.types.is_dictionary, types_in(kind))):
        raise pa.ArrowNotImplementedError(f"Unification of dictionaries in a {kind} is not implemented")
    for part in types_in(kind):
        if pa.types.is_run_end_encoded(part) and part is not kind:
            raise pa.ArrowNotImplementedError(f"values of {part} within others are not implemented")
        # pyarrow makes NULLs of such that end the process
        if isinstance(part, pa.BaseExtensionType) and any(map(pa.types.is_union, types_in(part))):
            raise pa.ArrowNotImplementedError(f"NULLs of {part} with a union within are not implemented")
    trial = _kept_values(pa.chunked_array([pa.nulls(1, kind)] * 2), kept_type(kind))
    for chunk in trial.chunks:
        value_bytes(chunk)
    returned(trial.take(pa.array([1, 0])), kind)


def first_known(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of two columns of one type, the value of each row that is not NULL, the left one first. Raises ArrowException
    where Arrow cannot."""
    kind = left.type
    return returned(pc.coalesce(*(_kept_values(column, kept_type(kind)) for column in (left, right))), kind)


def kept_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values of a type are kept."""
    types = pa.types
    if is_string_view(kind):
        return pa.large_string()
    if is_binary_view(kind):
        return pa.large_binary()
    if types.is_run_end_encoded(kind):
        return kept_type(kind.value_type)
    if types.is_dictionary(kind):
        value = kept_type(kind.value_type)
        value = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(value, value)
        wide = kind.index_type.bit_width > 32 or kind.index_type == pa.uint32()
        return pa.dictionary(pa.int64() if wide else pa.int32(), value, kind.ordered)
    if isinstance(kind, pa.BaseExtensionType):
        storage = kept_type(kind.storage_type)
        return kind if storage.equals(kind.storage_type) else storage
    if not types.is_nested(kind):
        return kind
    parts = [field.with_type(kept_type(field.type)) for field in _fields(kind)]
    if types.is_fixed_size_list(kind) and types.is_fixed_size_list(parts[0].type):
        parts = [pa.field(parts[0].name, pa.struct(parts))]  # of slices of such pyarrow picks wrong values
    return _of_parts(kind, parts)


def plain_type(
    kind: pa.DataType,
    leaf: Callable[[pa.DataType], pa.DataType] = lambda each: each,
    *,
    bare: bool = False,
    extensions: bool = True,
) -> pa.DataType:
    """A type of the same values without dictionaries; of values that are not nested, what `leaf` makes of theirs.

    Parameters
    ----------
    bare : bool
        Without run ends and list views too, and with type codes of unions from 0. Else run ends stay where that
        changes nothing within them.
    extensions : bool
        Extension types stay where that changes nothing within them; else there is their storage.
    """

    def plain(part: pa.DataType) -> pa.DataType:
        return plain_type(part, leaf, bare=bare, extensions=extensions)

    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_run_end_encoded(kind):
        value = plain(kind.value_type)
        return value if bare or not value.equals(kind.value_type) else kind
    if isinstance(kind, pa.BaseExtensionType):
        storage = plain(kind.storage_type)
        return kind if extensions and storage.equals(kind.storage_type) else storage
    if not pa.types.is_nested(kind):
        return leaf(kind)
    parts = [field.with_type(plain(field.type)) for field in _fields(kind)]
    if bare and pa.types.is_union(kind):
        return pa.union(parts, kind.mode)
    if not bare and is_list_view(kind):
        return pa.list_view(parts[0])
    if not bare and is_large_list_view(kind):
        return pa.large_list_view(parts[0])
    return _of_parts(kind, parts)


def _of_parts(kind: pa.DataType, parts: list[pa.Field]) -> pa.DataType:
    """A nested type as another one, of these fields, with lists in the place of list views."""
    types = pa.types
    if types.is_union(kind):
        return pa.union(parts, kind.mode, kind.type_codes)
    if types.is_struct(kind):
        return pa.struct(parts)
    if types.is_map(kind):
        return pa.map_(*parts, keys_sorted=kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(parts[0], kind.list_size)
    if types.is_large_list(kind) or is_large_list_view(kind):
        return pa.large_list(parts[0])
    return pa.list_(parts[0])


def _fields(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a nested type; none of others."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)]


def types_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and those that it is made of, but for the values of dictionaries."""
    yield kind
    if isinstance(kind, pa.BaseExtensionType):
        yield from types_in(kind.storage_type)
    elif pa.types.is_run_end_encoded(kind):
        yield from types_in(kind.value_type)
    elif not pa.types.is_dictionary(kind):
        for field in _fields(kind):
            yield from types_in(field.type)


def fields_in(field: pa.Field) -> Iterator[pa.Field]:
    """A field and those within its type."""
    yield field
    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    for inner in _fields(kind) if pa.types.is_nested(kind) else []:
        yield from fields_in(inner)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether dictionaries of values of a type can be made one."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return False
    # Arrow takes the bits of float16 for numbers there.
    return not (types.is_nested(kind) or types.is_null(kind) or types.is_float16(kind))


# Columns


def _kept_values(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column as the type in which it is kept, without chunks of no rows: what Arrow reads of some that it wrote ends
    the process, such as lists whose offsets do not begin at 0, and unions."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not _is_kept_type(column.type):
        chunks = [_rebuilt(chunk, kind, _kept_leaf) for chunk in chunks]
    elif len(chunks) == column.num_chunks:
        return column
    return pa.chunked_array(chunks, kind)


def _kept_leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:  # such cannot be made one with others
        dictionary = array.dictionary.cast(kind.value_type)
        array = pa.DictionaryArray.from_arrays(array.indices, dictionary, ordered=array.type.ordered)
        valid = pc.is_valid(array.dictionary).take(array.indices)
        indices = pc.if_else(valid, array.indices, pa.scalar(None, array.indices.type))
        array = pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=array.type.ordered)
        array = compacted(array)
    return array.cast(kind)


def returned(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """What was kept of a column, as the type that it had. In more chunks where the dictionary of one would have more
    values than its indices can number, or run ends more rows."""
    if column.type.equals(kind):
        return column
    if pa.types.is_run_end_encoded(kind):
        most = (1 << (kind.run_end_type.bit_width - 1)) - 1  # rows that a chunk's run ends can number
        chunks = [
            part
            for chunk in column.chunks
            for start in range(0, len(chunk), most)
            for part in _encoded(chunk.slice(start, most), kind)
        ]
        return pa.chunked_array(chunks, kind)
    chunks = [_rebuilt(part, kind, _cast) for chunk in column.chunks for part in _fitting(chunk, kind)]
    return pa.chunked_array(chunks, kind)


def _encoded(array: pa.Array, kind: pa.DataType) -> Iterator[pa.Array]:
    """The rows of an array as runs, of values of the type that these have. In several arrays as of `returned`."""
    ends = pc.run_end_encode(
        array, run_end_type=kind.run_end_type
    ).run_ends.to_numpy()  # its values may be no valid ones
    starts = np.concatenate([[0], ends[:-1]])
    first = 0
    for values in returned(pa.chunked_array([array.take(pa.array(starts))]), kind.value_type).chunks:
        own = ends[first : first + len(values)] - starts[first]
        yield pa.RunEndEncodedArray.from_arrays(pa.array(own), values, kind)
        first += len(values)


def in_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows whose columns have these types instead, in which values are the same or cast: such as without dictionaries,
    run ends and extension types, or with them. Raises ArrowException where Arrow cannot."""
    columns = [_in_type(column, field.type) for field, column in zip(schema, table.columns, strict=True)]
    return pa.table(columns, schema=schema)


def _in_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type.equals(kind) and str(column.type) == str(kind):
        return column
    column = _kept_values(column, kept_type(column.type))
    if column.type.equals(kind):  # lists may name their values otherwise
        return pa.chunked_array([_rebuilt(chunk, kind, _cast) for chunk in column.chunks], kind)
    return returned(column, kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type) and not pa.types.is_dictionary(kind):
        array = array.dictionary_decode()  # also of those that have no cast
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    return array if array.type.equals(kind) else array.cast(kind)


def _fitting(array: pa.Array, kind: pa.DataType) -> Iterator[pa.Array]:
    """An array in parts whose dictionaries fit a type."""
    if _fits(array, kind):
        yield array
        return
    array = compacted(array)
    if _fits(array, kind) or len(array) < 2:
        yield array
        return
    half = len(array) // 2
    for part in (array.slice(0, half), array.slice(half)):
        yield from _fitting(part, kind)


def _fits(array: pa.Array, kind: pa.DataType) -> bool:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(kind, pa.BaseExtensionType):
        return _fits(array, kind.storage_type)
    if pa.types.is_dictionary(kind):
        bits = kind.index_type.bit_width
        most = 1 << (bits if pa.types.is_unsigned_integer(kind.index_type) else bits - 1)
        if not pa.types.is_dictionary(array.type):
            return len(array) <= most  # each may be a value of its own
        if len(array.dictionary) > most:
            return False
        narrow = kind.value_type in (pa.string(), pa.binary())
        return not narrow or array.dictionary.nbytes <= MAX_CHUNK_BYTES
    if pa.types.is_union(kind):
        return True
    if pa.types.is_struct(array.type) and not pa.types.is_struct(kind):
        array = array.field(0)
    pairs = zip(_children(array), _fields(kind), strict=True)
    return all(_fits(child, field.type) for child, field in pairs)


def compacted(array: pa.Array) -> pa.Array:
    """The same values, with dictionaries, of plain values, that have no others."""
    return _rebuilt(array, array.type, _compacted_leaf)


def _compacted_leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return array
    used = np.zeros(len(array.dictionary), np.bool_)
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    null = pc.is_null(array.indices).to_numpy(zero_copy_only=False)
    used[codes[~null]] = True
    codes = (np.cumsum(used) - 1)[codes] if len(used) else codes
    indices = pa.array(codes, mask=null).cast(kind.index_type, safe=False)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.filter(pa.array(used)), ordered=kind.ordered)


def _children(array: pa.Array) -> list[pa.Array]:
    """The arrays that one of a nested type is made of, as `lengths` divides those of lists; none of others."""
    kind, types = array.type, pa.types
    if types.is_struct(kind):
        return [array.field(at) for at in range(kind.num_fields)]
    if types.is_map(kind):
        first, last = (array.offsets[at].as_py() for at in (0, -1)) if len(array) else (0, 0)
        return [part.slice(first, last - first) for part in (array.keys, array.items)]
    if types.is_fixed_size_list(kind):
        return [array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)]
    return [_flattened(array)] if _is_list(kind) else []


def _flattened(array: pa.Array) -> pa.Array:
    """The values of lists. pyarrow's own `flatten` loses the bytes of views that are stored in extension types, and of
    no lists whose offsets begin past 0, as they are read of what pyarrow wrote, ends the process."""
    if not len(array):
        return array.values.slice(0, 0)
    if not any(isinstance(part, pa.BaseExtensionType) for part in types_in(array.type.value_type)):
        return array.flatten()
    of = lengths(array)
    starts = array.offsets.to_numpy()[: len(of)][of > 0]
    ends = starts + of[of > 0]
    apart = starts[1:] != ends[:-1]
    stretches = zip(
        starts[np.append(True, apart)[: len(starts)]], ends[np.append(apart, True)[: len(ends)]], strict=True
    )
    values = array.values
    return pa.concat_arrays([values.slice(0, 0), *(values.slice(start, end - start) for start, end in stretches)])


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    large = types.is_large_list(kind) or is_large_list_view(kind)
    return large or types.is_list(kind) or is_list_view(kind)


def lengths(array: pa.Array) -> np.ndarray:
    """How many values the children have for each list or map, int64, shape (n,): none for a list that is NULL."""
    if pa.types.is_map(array.type):  # which cannot be flattened
        return np.diff(array.offsets.to_numpy().astype(np.int64))
    if is_list_view(array.type) or is_large_list_view(array.type):
        found = array.sizes.to_numpy().astype(np.int64)
    else:
        found = np.diff(array.offsets.to_numpy().astype(np.int64))
    return found * pc.is_valid(array).to_numpy(zero_copy_only=False) if array.null_count else found


def _rebuilt(array: pa.Array, kind: pa.DataType, leaf: _Leaf) -> pa.Array:
    """An array with what `leaf` makes of each array in it that is not nested, by the type wanted."""
    types = pa.types
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_rebuilt(array, kind.storage_type, leaf))
    if types.is_run_end_encoded(array.type):
        ends = np.clip(array.run_ends.to_numpy().astype(np.int64) - array.offset, 0, len(array))
        runs = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        return _rebuilt(array.values, kind, leaf).take(pa.array(runs))
    if types.is_struct(kind) and not types.is_struct(array.type):  # the struct that `kept_type` puts into lists
        return pa.StructArray.from_arrays([_rebuilt(array, kind.field(0).type, leaf)], fields=_fields(kind))
    if types.is_struct(array.type) and not types.is_struct(kind):
        return _rebuilt(array.field(0), kind, leaf)
    if types.is_union(kind):
        return _rebuilt_union(array, kind, leaf)
    if not types.is_nested(kind):
        return leaf(array, kind)
    fields = _fields(kind)
    children = [_rebuilt(child, field.type, leaf) for child, field in zip(_children(array), fields, strict=True)]
    mask = pc.is_null(array) if array.null_count else None
    if types.is_struct(kind):
        if not children:
            return array
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if types.is_fixed_size_list(kind):
        if not kind.list_size:  # pyarrow divides by it
            valid = None if mask is None else pc.invert(mask).buffers()[1]
            return pa.Array.from_buffers(kind, len(array), [valid], children=[children[0]])
        return pa.FixedSizeListArray.from_arrays(children[0], type=kind, mask=mask)
    of = lengths(array)
    ends = np.cumsum(of)
    if is_list_view(kind):
        parts = [pa.array((ends - of).astype(np.int32)), pa.array(of.astype(np.int32))]
        return pa.ListViewArray.from_arrays(*parts, children[0], type=kind, mask=mask)
    if is_large_list_view(kind):
        return pa.LargeListViewArray.from_arrays(pa.array(ends - of), pa.array(of), children[0], type=kind, mask=mask)
    offsets = np.concatenate([[0], ends])
    if types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets), children[0], type=kind, mask=mask)
    offsets = pa.array(offsets.astype(np.int32))
    if types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, *children, type=kind, mask=mask)
    return pa.ListArray.from_arrays(offsets, children[0], type=kind, mask=mask)


def _rebuilt_union(array: pa.Array, kind: pa.DataType, leaf: _Leaf) -> pa.Array:
    if not len(array):
        return pa.nulls(0, kind)  # one that was read may have no buffer of types
    children = [_rebuilt(array.field(at), field.type, leaf) for at, field in enumerate(_fields(kind))]
    codes, places = _union_places(array)
    if array.type.type_codes != kind.type_codes:
        made = np.zeros(256, np.int8)
        made[np.array(array.type.type_codes, np.int8)] = kind.type_codes
        codes = made[codes]
    buffers = [pa.py_buffer(each) for each in (codes, places) if each is not None]
    return pa.Array.from_buffers(kind, len(array), [None, *buffers], children=children)


def _union_places(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """Of each value of a union its type, int8, shape (n,), and its place in the child of that type, int32, shape (n,);
    None where that is its own. pyarrow's own `type_codes` and `offsets` are those of the array that one is a slice of.
    """
    buffers, first, count = array.buffers(), array.offset, len(array)
    dense = array.type.mode == "dense"
    return (
        np.frombuffer(buffers[1], np.int8, count, first),
        np.frombuffer(buffers[2], np.int32, count, 4 * first) if dense else None,
    )


# Sizes


def plain_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value of a type whose values lie one behind the other, each in whole bytes; None for others."""
    types = pa.types
    if types.is_boolean(kind) or not (types.is_primitive(kind) or types.is_decimal(kind)):
        return None
    return kind.bit_width // 8


def fixed_bytes(kind: pa.DataType) -> int | None:
    """Bytes of a value of a type, those of its dictionary aside; None where they vary."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_bytes(kind.storage_type)
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        parts = [fixed_bytes(field.type) for field in _fields(kind)]
        if None in parts:
            return None
        return sum(parts) * (kind.list_size if types.is_fixed_size_list(kind) else 1)  # type: ignore[arg-type]
    if types.is_null(kind):
        return 0
    try:
        return (kind.bit_width + 7) // 8
    except ValueError:
        return None


def value_bytes(array: pa.Array) -> np.ndarray | int:
    """Bytes of each value of a type in which rows are kept, with its offsets, int64, shape (n,); a number where all
    have the same. A list has at least one for each value in it."""
    kind, types = array.type, pa.types
    fixed = fixed_bytes(kind)
    if fixed is not None:
        return fixed
    if isinstance(kind, pa.BaseExtensionType):
        return value_bytes(array.storage)
    if types.is_struct(kind):
        return _sum_of_bytes(_children(array))
    if types.is_union(kind):
        found: np.ndarray = np.ones(len(array), np.int64)
        codes, places = _union_places(array)
        for at, code in enumerate(kind.type_codes):
            sizes = np.broadcast_to(value_bytes(array.field(at)), len(array.field(at)))
            if places is None:
                found = found + sizes
            else:
                own = codes == code
                found[own] += sizes[places[own]] + 4
        return found
    if types.is_fixed_size_list(kind):
        (values,) = _children(array)
        return np.asarray(value_bytes(values)).reshape(len(array), kind.list_size).sum(axis=1)
    if _is_list(kind) or types.is_map(kind):
        counts, each = lengths(array), _sum_of_bytes(_children(array))
        if isinstance(each, int):
            return counts * max(each, 1) + 4
        ends = np.cumsum(counts)
        sums = np.concatenate([[0], np.cumsum(np.maximum(each, 1))])
        return sums[ends] - sums[ends - counts] + 4
    of = pc.binary_length(array)
    return (of.fill_null(0) if of.null_count else of).to_numpy().astype(np.int64) + 4


def _sum_of_bytes(arrays: list[pa.Array]) -> np.ndarray | int:
    """Bytes of the values of several arrays that belong together."""
    total: np.ndarray | int = 0
    for array in arrays:
        total = total + value_bytes(array)
    return total
