// What the SplitJoin kernel does: a row at a time, whose results come out by the stored row's age. No core ever stops
// answering. Where the room for results is full, the row whose results come out stays, and goes on with the next JOIN.

#define MOST(bits) (~(ulong)0 >> (64 - (bits)))

typedef struct {
    uint number, side;
    bool null, more, mark, again;
    ulong key, lower, upper, time;
} Row;

// A difference of two unsigned numbers of some bits, and a bound on it: a bit more, in two's complement.
typedef struct {
    bool negative;
    ulong low;
} Difference;

static Difference difference(ulong from, ulong to, ulong most) {
    const Difference made = {to < from, (to - from) & most};
    return made;
}

static bool at_most(Difference a, Difference b) {
    return a.negative != b.negative ? a.negative : a.low <= b.low;
}

static Difference bound(__global const State *state, uint at, uint bits) {
    const ulong low = two_words(state->settings + at);
    const Difference made = {
        bits == 64 ? state->settings[at + 2] & 1 : (low >> (bits & 63)) & 1,
        low & MOST(bits),
    };
    return made;
}

static Row row_of(__global const uint *words) {
    const uint flags = words[FIELD_FLAGS];
    Row row = {words[FIELD_ROW] & NUMBER_MOST, (flags & ROW_SIDE) != 0, flags & ROW_NULL, flags & ROW_MORE};
#if KEY_BITS == 32
    row.key = words[FIELD_KEY];
#else
    row.key = two_words(words + FIELD_KEY);
#endif
#if BOUNDS
    row.again = flags & ROW_AGAIN;
#if KEY_BITS == 32
    row.lower = words[FIELD_LOWER];
    row.upper = words[FIELD_UPPER];
#else
    row.lower = two_words(words + FIELD_LOWER);
    row.upper = two_words(words + FIELD_UPPER);
#endif
#endif
#if TIME_BITS
    row.mark = flags & ROW_MARK;
#if TIME_BITS == 32
    row.time = words[FIELD_TIME];
#else
    row.time = two_words(words + FIELD_TIME);
#endif
#endif
    return row;
}

static bool timed(__global const State *state) {
#if TIME_BITS
    return state->settings[SET_TIMED] & TIMED_TIMED;
#else
    return false;
#endif
}

static uint order_of(__global const State *state) { return state->settings[SET_ORDER] & ORDER_ORDER; }

// Where a row of a stream lies.
static uint slot(uint side, ulong number) { return side * CAPACITY + (uint)(number % CAPACITY); }

static void store(__global State *state, const Row *row) {
    const ulong number = state->arrived[row->side]++;
    const uint at = slot(row->side, number);
    __global ulong *oldest = state->oldest + row->side * CORES + number % CORES;
    if (timed(state) && number / CORES - *oldest >= ROWS) {
        state->overflow = 1;
        ++*oldest;
    }
    state->keys[at] = (KEY)row->key;
    state->numbers[at] = row->number | (row->null ? NUMBER_MOST + 1 : 0);
#if TIME_BITS
    state->times[at] = (TIME)row->time;
#endif
}

// Drops what no row that comes after this one can match.
static void expire(__global State *state, const Row *row) {
#if TIME_BITS
    if (!timed(state))
        return;
    const uint stored = !row->side;
    ulong late = two_words(state->settings + (row->side ? SET_RIGHT_LATE_0 : SET_LEFT_LATE_0)) & MOST(TIME_BITS);
    if (row->mark || late > row->time)
        late = row->mark ? 0 : row->time;
    const ulong since = row->time - late;
    const Difference low = bound(state, SET_TIME_LOW_0, TIME_BITS), high = bound(state, SET_TIME_HIGH_0, TIME_BITS);
    for (uint core = 0; core < CORES; ++core) {
        __global ulong *oldest = state->oldest + stored * CORES + core;
        for (; *oldest * CORES + core < state->arrived[stored]; ++*oldest) {
            const ulong time = state->times[slot(stored, *oldest * CORES + core)];
            if (stored ? at_most(low, difference(since, time, MOST(TIME_BITS)))
                       : at_most(difference(time, since, MOST(TIME_BITS)), high))
                break;
        }
    }
#endif
}

static bool matches(__global const State *state, const Row *row, ulong number) {
    const uint stored = !row->side, at = slot(stored, number);
    if (state->numbers[at] > NUMBER_MOST)
        return false;
#if TIME_BITS
    if (timed(state)) {
        if (number / CORES < state->oldest[stored * CORES + number % CORES])
            return false;
        const ulong time = state->times[at];
        const Difference apart = stored ? difference(row->time, time, MOST(TIME_BITS))
                                        : difference(time, row->time, MOST(TIME_BITS));
        if (!at_most(bound(state, SET_TIME_LOW_0, TIME_BITS), apart) ||
            !at_most(apart, bound(state, SET_TIME_HIGH_0, TIME_BITS)))
            return false;
    }
#endif
    const ulong key = state->keys[at];
    const uint predicate = state->settings[SET_PREDICATE];
    bool within;
    if (BOUNDS && predicate & PREDICATE_OWN_BOUNDS) {
        within = row->lower <= key && key <= row->upper;
    } else {
        const Difference apart =
            stored ? difference(row->key, key, MOST(KEY_BITS)) : difference(key, row->key, MOST(KEY_BITS));
        within = at_most(bound(state, SET_LOW_0, KEY_BITS), apart) && at_most(apart, bound(state, SET_HIGH_0, KEY_BITS));
    }
    return within != ((predicate & PREDICATE_COMPLEMENT) != 0);
}

// A row is stored; if it probes, its results come out from now on.
static void take(__global State *state, __global const uint *words) {
    const Row row = row_of(words);
    if (!row.mark && !row.again)
        store(state, &row);
    if (row.mark) {
        expire(state, &row);
        return;
    }
    for (int at = 0; at < ROW_WORDS; ++at)
        state->probe[at] = words[at];
    const ulong seen = state->arrived[!row.side];
    ulong window = state->settings[row.side ? SET_LEFT_ROWS : SET_RIGHT_ROWS];
    if (timed(state) || window > CAPACITY)
        window = CAPACITY;
    state->stop = seen;
    state->at = row.null ? seen : seen > window ? seen - window : 0;
    state->probing = 1;
}

// The next result of the row that probes, if it has one; else, or with the punctuation behind it, it is over.
static bool next(__global State *state, __global uint *out) {
    const Row row = row_of(state->probe);
    const ulong end = (state->stop + CORES - 1) / CORES;
    const uint order = order_of(state);
    const uint every = (state->settings[SET_ORDER] & ORDER_EVERY) >> ORDER_EVERY_LSB;
    out[0] = row.number | row.side << NUMBER_BITS;
    while (state->star || state->at < state->stop) {
        if (state->star) {
            state->star = 0;
            out[1] = RESULT_STAR;
            return true;
        }
        const ulong number = state->at++, behind = number / CORES + 1;
        state->star = order == ORDER_INNER && number % CORES == CORES - 1 && behind < end &&
                      !(behind & (((ulong)1 << every) - 1));
        if (matches(state, &row, number)) {
            out[1] = state->numbers[slot(!row.side, number)];
            return true;
        }
    }
    state->probing = 0;
    expire(state, &row);
    out[1] = RESULT_STAR | 1;
    return order == ORDER_OUTER ? !row.more : order == ORDER_INNER;
}

static Fault join(__global State *state, const Memory *memory, const Command *c) {
    const ulong room = (ulong)c->length_b * RESULT_BYTES / BEAT_BYTES * BEAT_BYTES / RESULT_BYTES;
    if (!room)
        return fault(ERR_ZERO_LENGTH, 0);
    Arrays arrays;
    arrays.count = 0;
    if (c->length_a)
        add(&arrays, c->keys_a, (ulong)c->length_a * ROW_WORDS * 4);
    add(&arrays, c->keys_out, room * RESULT_BYTES);
    add(&arrays, c->rows_out, BEAT_BYTES);
    const Fault found = checked_arrays(memory, arrays);
    if (found.code != ERR_NONE)
        return found;
    __global const uint *rows = (__global const uint *)place(memory, c->keys_a);
    __global uint *results = (__global uint *)place(memory, c->keys_out);
    uint taken = 0;
    ulong made = 0;
    while (made < room && (state->probing || taken < c->length_a)) {
        if (state->probing)
            made += next(state, results + 2 * made);
        else
            take(state, rows + (ulong)taken++ * ROW_WORDS);
    }
    state->rows_in += taken;
    state->rows_out += made;
    __global uint *summary = (__global uint *)place(memory, c->rows_out);
    for (uint at = 0; at < BEAT_BYTES / 4; ++at)
        summary[at] = 0;
    summary[0] = taken;
    summary[1] = (uint)made;
    summary[2] = (taken == c->length_a && !state->probing ? SUMMARY_DRAINED : 0) |
                 (state->overflow ? SUMMARY_OVERFLOW : 0);
    return fault(ERR_NONE, 0);
}

static Fault carried_out(__global State *state, const Memory *memory, const Command *c) {
    switch (c->operation) {
    case OP_NOP:
        return fault(ERR_NONE, 0);
    case OP_JOIN:
        return join(state, memory, c);
    case OP_CLEAR:
        state->probing = state->star = state->overflow = 0;
        state->arrived[0] = state->arrived[1] = 0;
        for (uint at = 0; at < 2 * CORES; ++at)
            state->oldest[at] = 0;
        return fault(ERR_NONE, 0);
    }
    return fault(ERR_UNKNOWN_OPERATION, 0);
}

