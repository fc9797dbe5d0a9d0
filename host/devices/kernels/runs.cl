// The commands of the run engine over sorted runs, as OpenCL C 1.2.
//
// A store is two arrays, keys and row numbers; a run is a range of both that starts at a multiple of PARTITION and
// is padded to one with the greatest key. The index array holds the first key of every partition (PanJoin, section
// III-D: BI-Sort), so that entry i of a run's index describes keys [i * PARTITION, (i + 1) * PARTITION).
//
// Work-items come in whole groups: those past the last have nothing to do.
// Set by the host: KEY (int or long), KEY_MAX, PARTITION_SHIFT, PROBE_CHUNK, MERGE_CHUNK, MERGE_CHAINS.

#define PARTITION (1u << PARTITION_SHIFT)
#define MERGE_PART (MERGE_CHUNK / MERGE_CHAINS)

// A run as the host describes it: where its keys start, how many there are, whether row limits apply to it.
typedef struct {
    uint start;
    uint length;
    uint limited;
    uint unused;
} Run;

// Entries of index[base .. base + n) that lie below a key, plus base. Branch-free: neighbouring probes overlap.
inline uint count_below(global const KEY *restrict index, uint base, uint n, KEY key) {
    while (n > 1) {
        uint step = n >> 1;
        base = index[base + step - 1] < key ? base + step : base;
        n -= step;
    }
    return base + (n && index[base] < key);
}

inline uint count_through(global const KEY *restrict index, uint base, uint n, KEY key) {
    while (n > 1) {
        uint step = n >> 1;
        base = index[base + step - 1] <= key ? base + step : base;
        n -= step;
    }
    return base + (n && index[base] <= key);
}

// Keys of one partition that lie below a key: a plain scan, which compilers turn into vector compares.
inline uint scan_below(global const KEY *restrict keys, KEY key) {
    uint below = 0;
    for (uint i = 0; i < PARTITION; i++) below += keys[i] < key;
    return below;
}

inline uint scan_through(global const KEY *restrict keys, KEY key) {
    uint through = 0;
    for (uint i = 0; i < PARTITION; i++) through += keys[i] <= key;
    return through;
}

// probe: the range of every run that each probe meets. One work-item takes PROBE_CHUNK neighbouring probes; as they
// ascend, their first and last bound fence the part of the index that the others need (PanJoin, section III-E, uses
// rebounding search to the same end). The searches of a chunk go in step, and the partitions are read in a pass of
// their own: neighbouring probes then wait for memory together, not one after the other.
kernel void probe(global const KEY *restrict keys, global const KEY *restrict index, global const Run *restrict runs,
                  uint run_count, uint probe_count, global const KEY *restrict lower, global const KEY *restrict upper,
                  global uint *restrict starts, global uint *restrict lengths, global ulong *restrict totals) {
    uint first = get_global_id(0) * PROBE_CHUNK;
    if (first >= probe_count) return;
    uint count = min((uint)PROBE_CHUNK, probe_count - first);
    ulong total = 0;
    KEY low[PROBE_CHUNK], high[PROBE_CHUNK];
    // Past the last probe the last one is searched again, so that loops have a fixed length.
    for (uint i = 0; i < PROBE_CHUNK; i++) low[i] = lower[first + min(i, count - 1)];
    for (uint i = 0; i < PROBE_CHUNK; i++) high[i] = upper[first + min(i, count - 1)];
    for (uint r = 0; r < run_count; r++) {
        Run run = runs[r];
        uint parts = (run.length + PARTITION - 1) >> PARTITION_SHIFT;
        global const KEY *restrict run_keys = keys + run.start;
        global const KEY *restrict run_index = index + (run.start >> PARTITION_SHIFT);
        uint fence_low = count_below(run_index, 0, parts, low[0]);
        uint fence_high = count_through(run_index, fence_low, parts - fence_low, high[PROBE_CHUNK - 1]);
        uint at[PROBE_CHUNK];
        for (uint i = 0; i < PROBE_CHUNK; i++) at[i] = fence_low;
        uint n = fence_high - fence_low;
        while (n > 1) {
            uint step = n >> 1;
            for (uint i = 0; i < PROBE_CHUNK; i++) at[i] += run_index[at[i] + step - 1] < low[i] ? step : 0;
            n -= step;
        }
        if (n)
            for (uint i = 0; i < PROBE_CHUNK; i++) at[i] += run_index[at[i]] < low[i];
        // The end mostly lies in the same partition; where not, it is searched.
        uint through[PROBE_CHUNK];
        for (uint i = 0; i < PROBE_CHUNK; i++) {
            through[i] = at[i];
            if (at[i] < parts && run_index[at[i]] <= high[i])
                through[i] = count_through(run_index, at[i], fence_high - at[i], high[i]);
        }
        global uint *restrict run_starts = starts + (ulong)r * probe_count + first;
        global uint *restrict run_lengths = lengths + (ulong)r * probe_count + first;
        for (uint i = 0; i < count; i++) {
            uint base = (at[i] ? at[i] - 1 : 0) << PARTITION_SHIFT;
            uint begin = min(base + scan_below(run_keys + base, low[i]), run.length);
            base = (through[i] ? through[i] - 1 : 0) << PARTITION_SHIFT;
            uint end = min(base + scan_through(run_keys + base, high[i]), run.length);
            run_starts[i] = begin;
            run_lengths[i] = end - begin;
            total += end - begin;
        }
    }
    totals[get_global_id(0)] = total;
}

// A share of a gather: the candidates [first, first + length) of one chunk of probes, its pairs written from `output` on.
typedef struct {
    uint chunk;
    uint length;
    ulong first;
    ulong output;
} Task;

// The pairs of a share that are within the row limits: how many, and, where asked, the pairs themselves as 64-bit
// arrival numbers. Stored row numbers have 32 bits and lie less than 2**32 past `base`.
inline uint take_share(Task task, const bool write, global const uint *restrict rows, global const Run *restrict runs,
                       uint run_count, uint probe_count, global const uint *restrict starts,
                       global const uint *restrict lengths, uint limited, global const uint *restrict limit_first,
                       global const uint *restrict limit_span, global const long *restrict numbers, long base,
                       global long *restrict out_probing, global long *restrict out_stored) {
    ulong skip = task.first, out = task.output;
    uint left = task.length;
    uint first = task.chunk * PROBE_CHUNK;
    uint count = min((uint)PROBE_CHUNK, probe_count - first);
    for (uint r = 0; r < run_count && left; r++) {
        global const uint *restrict run_starts = starts + (ulong)r * probe_count + first;
        global const uint *restrict run_lengths = lengths + (ulong)r * probe_count + first;
        // The probes with pairs in this run, picked without branches: few have any, and which is hard to predict.
        uint chosen[PROBE_CHUNK + 1], found = 0;
        for (uint i = 0; i < count; i++) {
            chosen[found] = i;
            found += run_lengths[i] != 0;
        }
        uint row_limits = limited && runs[r].limited;
        for (uint k = 0; k < found && left; k++) {
            uint i = chosen[k], length = run_lengths[i];
            if (length <= skip) {
                skip -= length;
                continue;
            }
            uint take = min(length - (uint)skip, left);
            global const uint *restrict from = rows + runs[r].start + run_starts[i] + skip;
            skip = 0;
            left -= take;
            uint p = first + i;
            if (row_limits) {
                uint low = limit_first[p], span = limit_span[p];
                for (uint j = 0; j < take; j++) {
                    uint row = from[j], within = row - low < span;  // modulo 2**32, as row numbers are
                    if (write && within) {
                        out_probing[out] = numbers[p];
                        out_stored[out] = base + (row - (uint)base);
                    }
                    out += within;
                }
            } else {
                if (write) {
                    long number = numbers[p];
                    for (uint j = 0; j < take; j++) {
                        out_probing[out + j] = number;
                        out_stored[out + j] = base + (from[j] - (uint)base);
                    }
                }
                out += take;
            }
        }
    }
    return (uint)(out - task.output);
}

// fit: the pairs of each share that are within the row limits, so that gather can write them without gaps.
kernel void fit(global const uint *restrict rows, global const Run *restrict runs, uint run_count, uint probe_count,
                global const uint *restrict starts, global const uint *restrict lengths,
                global const Task *restrict tasks, uint task_count, global const uint *restrict limit_first,
                global const uint *restrict limit_span, global uint *restrict fitting) {
    uint at = get_global_id(0);
    if (at >= task_count) return;
    fitting[at] = take_share(tasks[at], false, rows, runs, run_count, probe_count, starts, lengths, 1, limit_first,
                             limit_span, 0, 0, 0, 0);
}

// gather: the pairs of each share.
kernel void gather(global const uint *restrict rows, global const Run *restrict runs, uint run_count, uint probe_count,
                   global const uint *restrict starts, global const uint *restrict lengths,
                   global const Task *restrict tasks, uint task_count, uint limited,
                   global const uint *restrict limit_first, global const uint *restrict limit_span,
                   global const long *restrict numbers, long base, global long *restrict out_probing,
                   global long *restrict out_stored) {
    uint at = get_global_id(0);
    if (at >= task_count) return;
    take_share(tasks[at], true, rows, runs, run_count, probe_count, starts, lengths, limited, limit_first, limit_span,
               numbers, base, out_probing, out_stored);
}

// count: the pairs of each probe, row limits applied. One work-item takes a chunk of probes.
kernel void count(global const uint *restrict rows, global const Run *restrict runs, uint run_count, uint probe_count,
                  global const uint *restrict starts, global const uint *restrict lengths, uint limited,
                  global const uint *restrict limit_first, global const uint *restrict limit_span,
                  global ulong *restrict counts) {
    uint first = get_global_id(0) * PROBE_CHUNK;
    uint last = min(first + PROBE_CHUNK, probe_count);
    for (uint p = first; p < last; p++) {
        ulong total = 0;
        for (uint r = 0; r < run_count; r++) {
            uint length = lengths[(ulong)r * probe_count + p];
            if (limited && runs[r].limited) {
                global const uint *restrict from = rows + runs[r].start + starts[(ulong)r * probe_count + p];
                uint low = limit_first[p], span = limit_span[p];
                uint within = 0;
                for (uint i = 0; i < length; i++) within += from[i] - low < span;
                total += within;
            } else {
                total += length;
            }
        }
        counts[p] = total;
    }
}

// merge: one work-item writes MERGE_CHUNK rows of the output. Where its inputs start is found along the diagonal of
// the two runs (merge path), for MERGE_CHAINS places at once, which are then merged in step: each chain waits for its
// own loads, so several keep the core busy. Ties take the older run first.
kernel void merge(global KEY *restrict keys, global uint *restrict rows, global KEY *restrict index, uint older, uint older_length, uint newer,
                  uint newer_length, uint output) {
    uint total = older_length + newer_length;
    uint first = get_global_id(0) * MERGE_CHUNK;
    if (first >= total) return;
    uint last = min(first + MERGE_CHUNK, total);
    uint a[MERGE_CHAINS], b[MERGE_CHAINS];
    for (uint c = 0; c < MERGE_CHAINS; c++) {
        uint diagonal = min(first + c * MERGE_PART, total);
        uint low = diagonal > newer_length ? diagonal - newer_length : 0, high = min(diagonal, older_length);
        while (low < high) {
            uint middle = (low + high) >> 1;
            if (keys[newer + diagonal - middle - 1] < keys[older + middle])
                high = middle;
            else
                low = middle + 1;
        }
        a[c] = older + low;
        b[c] = newer + diagonal - low;
    }
    uint a_end = older + older_length, b_end = newer + newer_length;
    if (last - first == MERGE_CHUNK) {
        uint out = output + first;
        for (uint i = 0; i < MERGE_PART; i++, out++) {
#pragma unroll
            for (uint c = 0; c < MERGE_CHAINS; c++) {
                KEY x = keys[a[c]], y = keys[b[c]];
                uint newer_wins = (b[c] < b_end) & ((a[c] >= a_end) | (y < x));
                keys[out + c * MERGE_PART] = newer_wins ? y : x;
                rows[out + c * MERGE_PART] = rows[newer_wins ? b[c] : a[c]];
                b[c] += newer_wins;
                a[c] += 1 - newer_wins;
            }
        }
    } else {
        uint i = a[0], j = b[0], out = output + first;
        for (; out < output + last; out++) {
            uint newer_wins = j < b_end && (i >= a_end || keys[j] < keys[i]);
            keys[out] = newer_wins ? keys[j] : keys[i];
            rows[out] = rows[newer_wins ? j : i];
            j += newer_wins;
            i += 1 - newer_wins;
        }
        // The last chunk also pads the run.
        for (; out & (PARTITION - 1); out++) keys[out] = KEY_MAX;
    }
    if (last == total && last - first == MERGE_CHUNK)
        for (uint out = output + last; out & (PARTITION - 1); out++) keys[out] = KEY_MAX;
    for (uint out = output + first; out < output + last; out += PARTITION)
        index[out >> PARTITION_SHIFT] = keys[out];
}
