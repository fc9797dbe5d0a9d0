// What the BI-Sort kernel does.

// An offset of bounds: its sign, its magnitude, and whether that is 2**KEY_BITS at least.
typedef struct {
    bool negative, huge;
    ulong magnitude;
} Offset;

#define TOP ((KEY)1 << (KEY_BITS - 1))
#define KEY_MOST (~(KEY)0)

// A key so that the order of all is that of unsigned numbers; and back.
static KEY plain(KEY key, bool is_signed) { return is_signed ? key ^ TOP : key; }

static uint entries(uint rows) { return (uint)(((ulong)rows + (1u << PARTITION_LOG2) - 1) >> PARTITION_LOG2); }

// The low KEY_BITS + 2 bits of three words, as a signed number.
static Offset offset_of(const uint *word) {
    const ulong low = word[0] | (ulong)word[1] << 32;
    Offset made;
#if KEY_BITS == 32
    const long value = (long)(low << 30) >> 30;
    made.negative = value < 0;
    made.magnitude = value < 0 ? (ulong)-value : (ulong)value;
    made.huge = made.magnitude >> 32 != 0;
#else
    const uint top = word[2] & 3;
    made.negative = top >= 2;
    made.magnitude = made.negative ? -low : low;
    made.huge = made.negative ? (top == 2 || low == 0) : top == 1;
#endif
    return made;
}

// Whether a command looks for probes in runs.
static bool probes(const Command *c) {
    return c->operation == OP_PROBE ||
           ((c->operation == OP_GATHER || c->operation == OP_COUNT) && c->flags & FLAG_PROBE);
}

static Arrays arrays_of(const Command *c) {
    const ulong key = sizeof(KEY), a = c->length_a, b = c->length_b;
    const bool buffer = c->flags & FLAG_BUFFER;
    Arrays arrays;
    arrays.count = 0;
    switch (c->operation) {
    case OP_COPY:
        add(&arrays, c->keys_a, a);
        add(&arrays, c->keys_out, a);
        break;
    case OP_INSERT:
        add(&arrays, c->keys_a, a * key);
        add(&arrays, c->rows_a, a * 4);
        break;
    case OP_MERGE:
        add(&arrays, c->keys_a, a * key);
        add(&arrays, c->rows_a, a * 4);
        if (!buffer) {
            add(&arrays, c->keys_b, b * key);
            add(&arrays, c->rows_b, b * 4);
        }
        add(&arrays, c->keys_out, (a + b) * key);
        add(&arrays, c->rows_out, (a + b) * 4);
        add(&arrays, c->index_out, entries(a + b) * key);
        break;
    case OP_INDEX:
        add(&arrays, c->keys_a, a * key);
        add(&arrays, c->rows_a, entries(a) * key);
        add(&arrays, c->keys_b, a * 4);
        break;
    case OP_PROBE:
        add(&arrays, c->keys_b, b * key);
        add(&arrays, c->rows_b, b * key);
        add(&arrays, c->keys_out, BEAT_BYTES);
        add(&arrays, c->rows_out, BEAT_BYTES);
        break;
    case OP_GATHER:
    case OP_COUNT:
        if (probes(c)) {
            add(&arrays, c->keys_b, b * key);
            add(&arrays, c->rows_b, b * key);
            add(&arrays, c->keys_out, c->operation == OP_COUNT ? b * 4 : buffer ? BEAT_BYTES : a * 8);
            if (c->operation == OP_GATHER)
                add(&arrays, c->rows_out, BEAT_BYTES);
            if (c->flags & FLAG_LIMITS)
                add(&arrays, c->index_out, b * 8);
            break;
        }
        if (c->flags & FLAG_LIMITS)
            add(&arrays, c->keys_a, b * 8);
        if (!buffer)
            add(&arrays, c->rows_a, a * 4);
        add(&arrays, c->keys_b, b * 4);
        add(&arrays, c->rows_b, b * 4);
        add(&arrays, c->keys_out, c->operation == OP_COUNT ? b * 4 : BEAT_BYTES);
        if (c->operation == OP_GATHER)
            add(&arrays, c->rows_out, BEAT_BYTES);
        break;
    }
    return arrays;
}

static Fault checked(__global const State *state, const Memory *memory, const Command *c) {
    const bool merge = c->operation == OP_MERGE, probe = probes(c), gather = c->operation == OP_GATHER;
    const bool ranges = (gather || c->operation == OP_COUNT) && !probe;
    const bool buffer = c->flags & FLAG_BUFFER, index = c->operation == OP_INDEX, runs = probe && !buffer;
    if (c->operation > OP_DISCARD && !index)
        return fault(ERR_UNKNOWN_OPERATION, 0);
    if (c->operation != OP_NOP && c->operation != OP_DISCARD && !(runs && !gather) && !c->length_a)
        return fault(ERR_ZERO_LENGTH, 0);
    if (((merge || probe || ranges) && !c->length_b) || (runs && !c->keys_a))
        return fault(ERR_ZERO_LENGTH, 0);
    const ulong rows = merge ? (ulong)c->length_a + c->length_b : index || ranges ? c->length_a : 0;
    if (rows > RUN_ROWS)
        return fault(ERR_RUN_TOO_LONG, 0);
    if (c->operation == OP_INSERT && (ulong)state->buffered + c->length_a > BUFFER_ROWS)
        return fault(ERR_BUFFER_ROWS, 0);
    if (buffer && ((merge && c->length_b != state->buffered) || ((probe || ranges) && c->length_a != state->buffered)))
        return fault(ERR_BUFFER_ROWS, 0);
    if (index && (c->index_out >= INDEX_ROWS || c->index_out + entries(c->length_a) > INDEX_ROWS))
        return fault(ERR_BAD_INDEX, 0);
    if ((index && c->length_b >= RUN_PLACES) || (runs && c->keys_a & ~state->runs))
        return fault(ERR_BAD_INDEX, 0);
    return checked_arrays(memory, arrays_of(c));
}

// Commands

static bool ascends(__global const KEY *keys, uint count, bool is_signed) {
    for (uint at = 1; at < count; ++at)
        if (plain(keys[at], is_signed) < plain(keys[at - 1], is_signed))
            return false;
    return true;
}

// Keys from `first` to before `last` that are below a bound, which may be above every key.
static uint below(__global const KEY *keys, uint first, uint last, KEY bound, bool above, bool is_signed) {
    const uint start = first;
    while (first < last) {
        const uint middle = first + (last - first) / 2;
        if (above || plain(keys[middle], is_signed) < bound)
            first = middle + 1;
        else
            last = middle;
    }
    return first - start;
}

static void copy(const Memory *memory, const Command *c) {
    __global const uchar *source = place(memory, c->keys_a);
    __global uchar *to = place(memory, c->keys_out);
    for (uint at = 0; at < c->length_a; ++at)
        to[at] = source[at];
}

static void insert(__global State *state, const Memory *memory, const Command *c) {
    __global const KEY *keys = (__global const KEY *)place(memory, c->keys_a);
    __global const uint *rows = (__global const uint *)place(memory, c->rows_a);
    for (uint new = 0; new < c->length_a; ++new) {
        const KEY key = plain(keys[new], c->flags & FLAG_SIGNED);
        uint at = state->buffered++;
        for (; at && state->buffer_keys[at - 1] > key; --at) {
            state->buffer_keys[at] = state->buffer_keys[at - 1];
            state->buffer_rows[at] = state->buffer_rows[at - 1];
        }
        state->buffer_keys[at] = key;
        state->buffer_rows[at] = rows[new];
    }
    state->rows_in += c->length_a;
}

static Fault merge(__global State *state, const Memory *memory, const Command *c) {
    const bool is_signed = c->flags & FLAG_SIGNED, buffer = c->flags & FLAG_BUFFER;
    __global const KEY *keys_a = (__global const KEY *)place(memory, c->keys_a);
    __global const uint *rows_a = (__global const uint *)place(memory, c->rows_a);
    __global const KEY *keys_b = buffer ? state->buffer_keys : (__global const KEY *)place(memory, c->keys_b);
    __global const uint *rows_b = buffer ? state->buffer_rows : (__global const uint *)place(memory, c->rows_b);
    const bool signed_b = is_signed && !buffer;  // those in the buffer are plain
    __global KEY *keys = (__global KEY *)place(memory, c->keys_out);
    __global uint *rows = (__global uint *)place(memory, c->rows_out);
    __global KEY *index = (__global KEY *)place(memory, c->index_out);
    if (!ascends(keys_a, c->length_a, is_signed) || !ascends(keys_b, c->length_b, signed_b))
        return fault(ERR_STUCK, 0);
    const uint both = c->length_a + c->length_b;
    for (uint a = 0, b = 0; a + b < both;) {
        const uint at = a + b;
        const bool older =
            b == c->length_b || (a < c->length_a && plain(keys_a[a], is_signed) <= plain(keys_b[b], signed_b));
        const KEY key = plain(older ? plain(keys_a[a], is_signed) : plain(keys_b[b], signed_b), is_signed);
        keys[at] = key;
        rows[at] = older ? rows_a[a] : rows_b[b];
        if (!(at & ((1u << PARTITION_LOG2) - 1)))
            index[at >> PARTITION_LOG2] = key;
        a += older;
        b += !older;
    }
    if (buffer)
        state->buffered = 0;
    state->rows_in += both;
    state->rows_out += both;
    return fault(ERR_NONE, 0);
}

static void load_index(__global State *state, const Memory *memory, const Command *c) {
    __global const KEY *index = (__global const KEY *)place(memory, c->rows_a);
    for (uint at = 0; at < entries(c->length_a); ++at)
        state->index[c->index_out + at] = plain(index[at], c->flags & FLAG_SIGNED);
    state->runs |= (ulong)1 << c->length_b;
    state->run_keys[c->length_b] = c->keys_a;
    state->run_numbers[c->length_b] = c->keys_b;
    state->run_rows[c->length_b] = c->length_a;
    state->run_index[c->length_b] = (uint)c->index_out;
}

// An array of a run, in the channel that the command says.
static __global uchar *in_channel(const Memory *memory, const Command *c, ulong address) {
    const ulong inside = ((ulong)1 << CHANNEL_BITS) - 1, channel = (((ulong)1 << ADDRESS_BITS) - 1) & ~inside;
    return place(memory, (address & inside) | (c->rows_a & channel));
}

// Where a bound stands in the run at a place, or in the insertion buffer.
static uint position(
    __global const State *state, const Memory *memory, const Command *c, uint at, KEY key, Offset offset) {
    bool above = false;
    KEY bound;
    if (offset.negative) {
        bound = offset.huge || key <= offset.magnitude ? 0 : key - (KEY)offset.magnitude;
    } else {
        bound = key + (KEY)offset.magnitude;
        above = offset.huge || bound < key;
    }
    if (c->flags & FLAG_BUFFER)
        return below(state->buffer_keys, 0, c->length_a, bound, above, false);
    const uint start = state->run_index[at], rows = state->run_rows[at];
    const uint before = below(state->index, start, start + entries(rows), bound, above, false);
    if (!before)
        return 0;
    const uint first = (before - 1) << PARTITION_LOG2;
    const uint last = min(first + (1u << PARTITION_LOG2), rows);
    __global const KEY *keys = (__global const KEY *)in_channel(memory, c, state->run_keys[at]);
    return first + below(keys, first, last, bound, above, c->flags & FLAG_SIGNED);
}

// A beat that has the number of pairs or ranges.
static void write_number(const Memory *memory, const Command *c, ulong number) {
    __global uchar *beat = place(memory, c->rows_out);
    for (uint at = 0; at < BEAT_BYTES; ++at)
        beat[at] = at < 8 ? (uchar)(number >> (8 * at)) : 0;
}

// Rows from start to before stop that lie within the limits of a probe, if there are any; those of them for which there
// is room are written as pairs.
static ulong kept(
    __global const uint *rows, uint start, uint stop, __global const uint *limits, uint probe, __global uint *out,
    ulong room) {
    if (!limits && !out)
        return stop - start;
    ulong found = 0;
    for (uint at = start; at < stop; ++at) {
        if (limits && rows[at] - limits[2 * probe] >= limits[2 * probe + 1])
            continue;
        if (out && found < room) {
            out[2 * found] = probe;
            out[2 * found + 1] = rows[at];
        }
        ++found;
    }
    return found;
}

// What a command writes of a range that was found: itself, its pairs, or its count. How many items there are of it.
static ulong give(
    __global const State *state, const Memory *memory, const Command *c, uint probe, uint at, uint start, uint stop,
    ulong done, ulong room, bool writing) {
    __global uint *out = (__global uint *)place(memory, c->keys_out);
    if (c->operation == OP_PROBE) {
        if (writing) {
            out[4 * done] = probe;
            out[4 * done + 1] = at;
            out[4 * done + 2] = start;
            out[4 * done + 3] = stop;
        }
        return 1;
    }
    __global const uint *rows = c->flags & FLAG_BUFFER
                                    ? state->buffer_rows
                                    : (__global const uint *)in_channel(memory, c, state->run_numbers[at]);
    __global const uint *limits = c->flags & FLAG_LIMITS ? (__global const uint *)place(memory, c->index_out) : 0;
    if (c->operation == OP_GATHER)
        return kept(rows, start, stop, limits, probe, writing ? out + 2 * done : 0, done < room ? room - done : 0);
    if (writing)
        out[probe] += (uint)kept(rows, start, stop, limits, probe, 0, 0);
    return 0;
}

static Fault probe(__global State *state, const Memory *memory, const Command *c) {
    const bool is_signed = c->flags & FLAG_SIGNED;
    __global const KEY *lower = (__global const KEY *)place(memory, c->keys_b);
    __global const KEY *upper = (__global const KEY *)place(memory, c->rows_b);
    if (!ascends(lower, c->length_b, is_signed) || !ascends(upper, c->length_b, is_signed))
        return fault(ERR_STUCK, 0);
    const Offset low = offset_of(c->low), high = offset_of(c->high);
    const ulong runs = c->flags & FLAG_BUFFER ? 1 : c->keys_a;
    // First how many there are, as nothing may be written beyond the end, or the room that there is.
    const ulong size = c->operation == OP_PROBE ? 16 : 8;
    const bool roomy = c->operation != OP_GATHER || c->flags & FLAG_BUFFER;
    const ulong room = roomy ? ~(ulong)0 : (ulong)c->length_a * 8 / BEAT_BYTES * BEAT_BYTES / 8;
    ulong found = 0;
    for (int writing = 0; writing < 2; ++writing) {
        const ulong bytes = size * min(found, room);
        if (writing && bytes && (!in_space(c->keys_out, bytes) || !is_there(memory, c->keys_out, bytes)))
            return fault(in_space(c->keys_out, bytes) ? ERR_DECODE_ERROR : ERR_ADDRESS_RANGE, c->keys_out);
        if (writing && c->operation == OP_COUNT)
            for (uint at = 0; at < c->length_b; ++at)
                ((__global uint *)place(memory, c->keys_out))[at] = 0;
        found = 0;
        for (ulong first = 0; first < c->length_b; first += PROBE_ROWS) {
            const ulong last = min(first + PROBE_ROWS, (ulong)c->length_b);
            for (uint at = 0; at < RUN_PLACES; ++at)
                for (ulong probe = first; runs >> at & 1 && probe < last; ++probe) {
                    const uint start = position(state, memory, c, at, plain(lower[probe], is_signed), low);
                    const uint stop = position(state, memory, c, at, plain(upper[probe], is_signed), high);
                    if (start >= stop)
                        continue;
                    found += give(state, memory, c, (uint)probe, at, start, stop, found, room, writing);
                }
        }
    }
    if (c->operation != OP_COUNT)
        write_number(memory, c, found > room ? ~(ulong)0 : found);
    state->rows_in += 2 * (ulong)c->length_b;
    state->rows_out += c->operation == OP_COUNT ? c->length_b : min(found, room);
    return fault(ERR_NONE, 0);
}

// The pairs of a range, or only their number.
static ulong pairs_of(__global const uint *rows, const Memory *memory, const Command *c, uint range, __global uint *out) {
    const uint start = ((__global const uint *)place(memory, c->keys_b))[range];
    const uint stop = ((__global const uint *)place(memory, c->rows_b))[range];
    __global const uint *limits = c->flags & FLAG_LIMITS ? (__global const uint *)place(memory, c->keys_a) : 0;
    return kept(rows, start, stop, limits, range, out, ~(ulong)0);
}

static Fault gather(__global State *state, const Memory *memory, const Command *c) {
    __global const uint *starts = (__global const uint *)place(memory, c->keys_b);
    __global const uint *stops = (__global const uint *)place(memory, c->rows_b);
    __global const uint *rows =
        c->flags & FLAG_BUFFER ? state->buffer_rows : (__global const uint *)place(memory, c->rows_a);
    for (uint range = 0; range < c->length_b; ++range)
        if (starts[range] > stops[range] || stops[range] > c->length_a)
            return fault(ERR_BAD_RANGE, 0);
    state->rows_in += c->length_b;
    __global uint *out = (__global uint *)place(memory, c->keys_out);
    if (c->operation == OP_COUNT) {
        for (uint range = 0; range < c->length_b; ++range)
            out[range] = (uint)pairs_of(rows, memory, c, range, 0);
        state->rows_out += c->length_b;
        return fault(ERR_NONE, 0);
    }
    ulong pairs = 0;
    for (uint range = 0; range < c->length_b; ++range)
        pairs += pairs_of(rows, memory, c, range, 0);
    if (pairs && (!in_space(c->keys_out, 8 * pairs) || !is_there(memory, c->keys_out, 8 * pairs))) {
        state->rows_in -= c->length_b;
        return fault(in_space(c->keys_out, 8 * pairs) ? ERR_DECODE_ERROR : ERR_ADDRESS_RANGE, c->keys_out);
    }
    for (uint range = 0; range < c->length_b; ++range)
        out += 2 * pairs_of(rows, memory, c, range, out);
    write_number(memory, c, pairs);
    state->rows_out += pairs;
    return fault(ERR_NONE, 0);
}

static Fault carried_out(__global State *state, const Memory *memory, const Command *c) {
    const Fault found = checked(state, memory, c);
    if (found.code != ERR_NONE)
        return found;
    switch (c->operation) {
    case OP_COPY:
        copy(memory, c);
        break;
    case OP_INSERT:
        insert(state, memory, c);
        break;
    case OP_DISCARD:
        state->buffered = 0;
        break;
    case OP_MERGE:
        return merge(state, memory, c);
    case OP_INDEX:
        load_index(state, memory, c);
        break;
    case OP_PROBE:
        return probe(state, memory, c);
    case OP_GATHER:
    case OP_COUNT:
        return probes(c) ? probe(state, memory, c) : gather(state, memory, c);
    }
    return fault(ERR_NONE, 0);
}
