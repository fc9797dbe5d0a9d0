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
#if SETTINGS
    default:
        if (offset >= SETTINGS_BASE && offset < SETTINGS_BASE + 4 * SETTINGS)
            state->settings[(offset - SETTINGS_BASE) / 4] = value;
#endif
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
#if SETTINGS
    default:
        if (offset >= SETTINGS_BASE && offset < SETTINGS_BASE + 4 * SETTINGS)
            return state->settings[(offset - SETTINGS_BASE) / 4];
#endif
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
