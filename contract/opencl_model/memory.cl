// A kernel's model in C: what the RTL module does, call by call, without a clock. It takes the module's place where an
// OpenCL kernel that calls it is emulated. The header, made from the tables of hw/, says what was built. Here is what all
// kernels have; what one kernel does follows, and then its registers.
//
// It reports the errors that the models in sim/models report, for the same reasons and in the same order. Of the counters
// it has commands, rows_in and rows_out; the others stay 0.

#include "muntin_build.h"

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

// Checks

typedef struct {
    ulong address[7], length[7];
    int count;
} Arrays;

static void add(Arrays *arrays, ulong address, ulong length) {
    arrays->address[arrays->count] = address;
    arrays->length[arrays->count++] = length;
}

static Fault checked_arrays(const Memory *memory, Arrays arrays) {
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
