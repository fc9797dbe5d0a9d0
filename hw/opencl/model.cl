// The kernel's model in C: what the RTL module does, call by call, without a clock. It takes the module's place where an
// OpenCL kernel that calls it is emulated. The header, made from the tables of hw/, says what was built.
//
// It reports the errors that sim/models/kernel.py reports, for the same reasons and in the same order. Of the counters it
// has commands, rows_in and rows_out; the others stay 0.

#include "mullion_build.h"

typedef struct {
    __global uchar *channel[CHANNELS];
    ulong bytes;  // of memory in each
} Memory;

typedef struct {
    uint operation, flags, tag, length_a, length_b;
    ulong keys_a, rows_a, keys_b, rows_b, keys_out, rows_out, index_out;
    uint low[3], high[3];  // offsets
} Command;

typedef struct {
    uint code;
    ulong address;
} Fault;

// An offset of bounds: its sign, its magnitude, and whether that is 2**KEY_BITS at least.
typedef struct {
    bool negative, huge;
    ulong magnitude;
} Offset;

#define TOP ((KEY)1 << (KEY_BITS - 1))
#define KEY_MOST (~(KEY)0)

static Fault fault(uint code, ulong address) {
    Fault made = {code, address};
    return made;
}

static __global uchar *place(const Memory *memory, ulong address) {
    return memory->channel[CHANNELS == 1 ? 0 : address >> CHANNEL_BITS] + (address & (((ulong)1 << CHANNEL_BITS) - 1));
}

static bool in_space(ulong address, ulong length) {
    const ulong last = address + length - 1;
    return last >= address && address >> CHANNEL_BITS == last >> CHANNEL_BITS && last >> ADDRESS_BITS == 0;
}

static bool is_there(const Memory *memory, ulong address, ulong length) {
    return (address & (((ulong)1 << CHANNEL_BITS) - 1)) + length <= memory->bytes;
}

// A key so that the order of all is that of unsigned numbers; and back.
static KEY plain(KEY key, bool is_signed) { return is_signed ? key ^ TOP : key; }

static uint entries(uint rows) { return (uint)(((ulong)rows + (1u << PARTITION_LOG2) - 1) >> PARTITION_LOG2); }

static ulong two_words(__global const uint *word) { return word[0] | (ulong)word[1] << 32; }

static Command decoded(__global const uint *word) {
    Command c;
    c.operation = word[WORD_OPERATION] & 0xff;
    c.flags = word[WORD_OPERATION] & 0xff00;
    c.tag = word[WORD_OPERATION] >> 16;
    c.length_a = word[WORD_LENGTH_A];
    c.length_b = word[WORD_LENGTH_B];
    c.keys_a = two_words(word + WORD_KEYS_A);
    c.rows_a = two_words(word + WORD_ROWS_A);
    c.keys_b = two_words(word + WORD_KEYS_B);
    c.rows_b = two_words(word + WORD_ROWS_B);
    c.keys_out = two_words(word + WORD_KEYS_OUT);
    c.rows_out = two_words(word + WORD_ROWS_OUT);
    c.index_out = two_words(word + WORD_INDEX_OUT);
    for (int at = 0; at < 3; ++at) {
        c.low[at] = word[WORD_LOW_OFFSET + at];
        c.high[at] = word[WORD_HIGH_OFFSET + at];
    }
    return c;
}

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

// Checks

typedef struct {
    ulong address[7], length[7];
    int count;
} Arrays;

static void add(Arrays *arrays, ulong address, ulong length) {
    arrays->address[arrays->count] = address;
    arrays->length[arrays->count++] = length;
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
    case OP_PROBE:
        if (!buffer) {
            add(&arrays, c->keys_a, a * key);
            if (!(c->flags & FLAG_REUSE))
                add(&arrays, c->rows_a, entries(a) * key);
        }
        add(&arrays, c->keys_b, b * key);
        add(&arrays, c->rows_b, b * key);
        add(&arrays, c->keys_out, b * 4);
        add(&arrays, c->rows_out, b * 4);
        break;
    case OP_GATHER:
    case OP_COUNT:
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
    const bool merge = c->operation == OP_MERGE, probe = c->operation == OP_PROBE;
    const bool ranges = c->operation == OP_GATHER || c->operation == OP_COUNT;
    const bool buffer = c->flags & FLAG_BUFFER;
    if (c->operation > OP_DISCARD)  // the last
        return fault(ERR_UNKNOWN_OPERATION, 0);
    if (c->operation != OP_NOP && c->operation != OP_DISCARD && !c->length_a)
        return fault(ERR_ZERO_LENGTH, 0);
    if ((merge || probe || ranges) && !c->length_b)
        return fault(ERR_ZERO_LENGTH, 0);
    const ulong rows = merge ? (ulong)c->length_a + c->length_b : probe || ranges ? c->length_a : 0;
    if (rows > RUN_ROWS)
        return fault(ERR_RUN_TOO_LONG, 0);
    if (c->operation == OP_INSERT && (ulong)state->buffered + c->length_a > BUFFER_ROWS)
        return fault(ERR_BUFFER_ROWS, 0);
    if (buffer && ((merge && c->length_b != state->buffered) || ((probe || ranges) && c->length_a != state->buffered)))
        return fault(ERR_BUFFER_ROWS, 0);
    if (probe && !buffer && (c->index_out >= INDEX_ROWS || c->index_out + entries(c->length_a) > INDEX_ROWS))
        return fault(ERR_BAD_INDEX, 0);
    const Arrays arrays = arrays_of(c);
    for (int at = 0; at < arrays.count; ++at) {
        if (arrays.address[at] % BEAT_BYTES)
            return fault(ERR_MISALIGNED_ADDRESS, arrays.address[at]);
        if (!in_space(arrays.address[at], arrays.length[at]))
            return fault(ERR_ADDRESS_RANGE, arrays.address[at]);
    }
    for (int at = 0; at < arrays.count; ++at)
        if (!is_there(memory, arrays.address[at], arrays.length[at]))
            return fault(ERR_DECODE_ERROR, arrays.address[at]);
    return fault(ERR_NONE, 0);
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

static uint position(__global const State *state, const Memory *memory, const Command *c, KEY key, Offset offset) {
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
    const uint start = (uint)c->index_out;
    const uint before = below(state->index, start, start + entries(c->length_a), bound, above, false);
    if (!before)
        return 0;
    const uint first = (before - 1) << PARTITION_LOG2;
    const uint last = min(first + (1u << PARTITION_LOG2), c->length_a);
    __global const KEY *keys = (__global const KEY *)place(memory, c->keys_a);
    return first + below(keys, first, last, bound, above, c->flags & FLAG_SIGNED);
}

static Fault probe(__global State *state, const Memory *memory, const Command *c) {
    const bool is_signed = c->flags & FLAG_SIGNED;
    __global const KEY *lower = (__global const KEY *)place(memory, c->keys_b);
    __global const KEY *upper = (__global const KEY *)place(memory, c->rows_b);
    if (!ascends(lower, c->length_b, is_signed) || !ascends(upper, c->length_b, is_signed))
        return fault(ERR_STUCK, 0);
    if (!(c->flags & (FLAG_BUFFER | FLAG_REUSE))) {
        __global const KEY *index = (__global const KEY *)place(memory, c->rows_a);
        for (uint at = 0; at < entries(c->length_a); ++at)
            state->index[c->index_out + at] = plain(index[at], is_signed);
    }
    const Offset low = offset_of(c->low), high = offset_of(c->high);
    __global uint *starts = (__global uint *)place(memory, c->keys_out);
    __global uint *stops = (__global uint *)place(memory, c->rows_out);
    for (uint at = 0; at < c->length_b; ++at) {
        starts[at] = position(state, memory, c, plain(lower[at], is_signed), low);
        stops[at] = position(state, memory, c, plain(upper[at], is_signed), high);
    }
    state->rows_in += 2 * (ulong)c->length_b;
    state->rows_out += 2 * (ulong)c->length_b;
    return fault(ERR_NONE, 0);
}

// The pairs of a range, or only their number.
static ulong pairs_of(__global const uint *rows, const Memory *memory, const Command *c, uint range, __global uint *out) {
    const uint start = ((__global const uint *)place(memory, c->keys_b))[range];
    const uint stop = ((__global const uint *)place(memory, c->rows_b))[range];
    if (!(c->flags & FLAG_LIMITS) && !out)
        return stop - start;
    uint first = 0, span = 0;
    if (c->flags & FLAG_LIMITS) {
        __global const uint *limits = (__global const uint *)place(memory, c->keys_a);
        first = limits[2 * range];
        span = limits[2 * range + 1];
    }
    ulong found = 0;
    for (uint at = start; at < stop; ++at) {
        if (c->flags & FLAG_LIMITS && rows[at] - first >= span)
            continue;
        if (out) {
            out[2 * found] = range;
            out[2 * found + 1] = rows[at];
        }
        ++found;
    }
    return found;
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
    __global uchar *beat = place(memory, c->rows_out);
    for (uint at = 0; at < BEAT_BYTES; ++at)
        beat[at] = at < 8 ? (uchar)(pairs >> (8 * at)) : 0;
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
    case OP_PROBE:
        return probe(state, memory, c);
    case OP_GATHER:
    case OP_COUNT:
        return gather(state, memory, c);
    }
    return fault(ERR_NONE, 0);
}

// Registers

static void work(__global State *state, const Memory *memory) {
    const uint waiting = state->taken - (state->came && !state->dropping);
    uint gone = 0;
    while (gone < waiting && state->error_code == ERR_NONE) {
        const Command c = decoded(state->queue + gone++ * COMMAND_WORDS);
        const Fault found = carried_out(state, memory, &c);
        if (found.code != ERR_NONE) {
            state->error_code = found.code;
            state->error_command = c.tag;
            state->error_address = found.address;
            break;
        }
        ++state->commands;
        ++state->completed_count;
        state->completed_tag = c.tag;
    }
    for (uint at = gone * COMMAND_WORDS; at < state->taken * COMMAND_WORDS; ++at)
        state->queue[at - gone * COMMAND_WORDS] = state->queue[at];
    state->taken -= gone;
    state->done = 1;
    state->interrupt_status |= state->interrupt_enable & 1;
}

static void push(__global State *state, const Memory *memory, uint word) {
    if (!state->came) {
        state->dropping = state->taken == QUEUE_ROWS;
        if (state->dropping && state->error_code == ERR_NONE) {
            state->error_code = ERR_QUEUE_OVERFLOW;
            state->error_command = 0;
            state->error_address = 0;
        }
        state->taken += !state->dropping;
    }
    if (!state->dropping)
        state->queue[(state->taken - 1) * COMMAND_WORDS + state->came] = word;
    state->came = (state->came + 1) % COMMAND_WORDS;
    if (!state->came && !state->dropping && state->auto_restart && state->error_code == ERR_NONE)
        work(state, memory);
}

static void write_register(__global State *state, const Memory *memory, uint offset, uint value) {
    switch (offset) {
    case REG_CONTROL:
        state->auto_restart = (value & CONTROL_AUTO_RESTART) != 0;
        if (value & CONTROL_START) {
            state->ready = 1;
            state->interrupt_status |= state->interrupt_enable & 2;
            work(state, memory);
        } else if (state->auto_restart && state->error_code == ERR_NONE && state->taken) {
            work(state, memory);
        }
        break;
    case REG_GLOBAL_INTERRUPT_ENABLE:
        state->interrupt_gate = value;
        break;
    case REG_INTERRUPT_ENABLE:
        state->interrupt_enable = value;
        break;
    case REG_INTERRUPT_STATUS:
        state->interrupt_status &= ~value;
        break;
    case REG_ERROR_CODE:
        state->error_code = state->error_command = 0;
        state->error_address = 0;
        state->taken = state->came = state->dropping = 0;
        break;
    case REG_QUEUE_PUSH:
        push(state, memory, value);
        break;
    case REG_TIMEOUT_CYCLES:
        state->timeout_cycles = value;
        break;
    case REG_COUNTER_CLEAR:
        state->commands = state->rows_in = state->rows_out = 0;
        break;
    }
}

static uint counter(__global State *state, ulong value) {
    state->high = (uint)(value >> 32);
    return (uint)value;
}

static uint read_register(__global State *state, uint offset) {
    uint value;
    switch (offset) {
    case REG_CONTROL:
        value = CONTROL_IDLE | (state->done ? CONTROL_DONE : 0) | (state->ready ? CONTROL_READY : 0) |
                (state->auto_restart ? CONTROL_AUTO_RESTART : 0);
        state->done = state->ready = 0;
        return value;
    case REG_GLOBAL_INTERRUPT_ENABLE:
        return state->interrupt_gate;
    case REG_INTERRUPT_ENABLE:
        return state->interrupt_enable;
    case REG_INTERRUPT_STATUS:
        return state->interrupt_status;
    case REG_ERROR_CODE:
        return state->error_code;
    case REG_ERROR_COMMAND:
        return state->error_command;
    case REG_ERROR_ADDRESS_LOW:
        return (uint)state->error_address;
    case REG_ERROR_ADDRESS_HIGH:
        return (uint)(state->error_address >> 32);
    case REG_QUEUE_STATUS:
        return (state->taken - (state->came && !state->dropping)) | (QUEUE_ROWS - state->taken) << 16 |
               (state->came ? 1u << 31 : 0);
    case REG_COMPLETED_TAG:
        return state->completed_tag;
    case REG_COMPLETED_COUNT:
        return state->completed_count;
    case REG_TIMEOUT_CYCLES:
        return state->timeout_cycles;
    CONSTANTS
    case REG_COMMANDS_LOW:
        return counter(state, state->commands);
    case REG_ROWS_IN_LOW:
        return counter(state, state->rows_in);
    case REG_ROWS_OUT_LOW:
        return counter(state, state->rows_out);
    case REG_COMMANDS_HIGH:
    case REG_ROWS_IN_HIGH:
    case REG_ROWS_OUT_HIGH:
        return state->high;
    }
    return 0;
}

static void reset(__global State *state) {
    // The host's own member, the first, stays.
    for (uint at = sizeof(ulong); at < sizeof(State); ++at)
        ((__global uchar *)state)[at] = 0;
}

uint FUNCTION(MEMORIES, __global char *state_of, ulong request) {
    __global char *memories[CHANNELS] = {MEMORY_LIST};
    __global State *state = (__global State *)state_of;
    Memory memory;
    for (int at = 0; at < CHANNELS; ++at)
        memory.channel[at] = (__global uchar *)memories[at];
    memory.bytes = state->memory_bytes;
    const uint kind = (uint)(request >> REQUEST_KIND_LSB);
    const uint offset = (uint)(request >> REQUEST_OFFSET_LSB) & ((1u << REQUEST_OFFSET_BITS) - 1);
    switch (kind) {
    case REQUEST_WRITE:
        write_register(state, &memory, offset, (uint)request);
        return 0;
    case REQUEST_RESET:
        reset(state);
        return 0;
    }
    // What a WAIT waits for is there, or never comes: there is no clock.
    return read_register(state, offset);
}
