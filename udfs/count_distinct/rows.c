/* Values of each person in each group, from rows in memory. A slot is a person in a group; the last one takes
 * the rows that do not count. numpy has made all numbers fit: slots.py. */
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;
typedef uint64_t u64;
typedef unsigned __int128 u128;

/* Put the rows in groups that are kept, and their slots, into two arrays; return how many. Person p is kept in
 * the groups own[ends[p] .. ends[p + 1] - 1], which increase; where a group stands there is its slot. */
i64 place_rows(const i32 *people, const i32 *groups, i64 n, const i32 *ends, const i32 *own, i32 *rows,
               i32 *slots) {
    i64 n_placed = 0;
    for (i64 k = 0; k < n; k++) {
        i32 group = groups[k], low = ends[people[k]], stop = ends[people[k] + 1];
        for (i32 size = stop - low, half; size > 0; size = half) {
            half = size / 2;
            low += own[low + half] < group ? size - half : 0;
        }
        rows[n_placed] = (i32)k;
        slots[n_placed] = low;
        n_placed += low < stop && own[low] == group;
    }
    return n_placed;
}

/* Mark the groups of rows, if below n_groups, in a table that has n_groups places for each person. */
void mark_groups(const i32 *people, const i32 *groups, i64 n, i64 n_groups, uint8_t *there) {
    for (i64 k = 0; k < n; k++)
        if (groups[k] < n_groups) there[people[k] * n_groups + groups[k]] = 1;
}

/* As place_rows, from two such tables: whether a person is kept in a group, and the slot if so. */
i64 place_by_table(const i32 *people, const i32 *groups, i64 n, i64 n_groups, const uint8_t *kept, const i32 *table,
                   i32 *rows, i32 *slots) {
    i64 n_placed = 0;
    for (i64 k = 0; k < n; k++) {
        rows[n_placed] = (i32)k;
        n_placed += groups[k] < n_groups && kept[people[k] * n_groups + groups[k]];
    }
    for (i64 k = 0; k < n_placed; k++) slots[k] = table[people[rows[k]] * n_groups + groups[rows[k]]];
    return n_placed;
}

/* Add the items of each slot: the low and the high half of a sum, which fits 128 bits. */
void add_items(const i32 *slots, const i64 *items, i64 n, i64 *sums) {
    for (i64 k = 0; k < n; k++) {
        i64 *sum = sums + 2 * (i64)slots[k];
        u64 low = (u64)sum[0] + (u64)items[k];
        sum[1] += (items[k] < 0 ? -1 : 0) + (low < (u64)items[k]);
        sum[0] = (i64)low;
    }
}

/* Take the item of each slot's row number place[slot], from 0; places are used up. */
void take_items(const i32 *slots, const i64 *items, i64 n, i32 *places, i64 *taken) {
    for (i64 k = 0; k < n; k++)
        if (places[slots[k]]-- == 0) taken[slots[k]] = items[k];
}

/* Count the people of each item in each group. A slot is a person in groups[slot]; equal items of it count once.
 * ends: where the items of each slot end in `own`, in which they are put, and behind them all the last end. last: of
 * each item the last slot that had it, from 1; all are 0. */
void count_people(const i32 *slots, const i32 *items, i64 n, const i64 *groups, i64 n_slots, i64 n_items, i32 *ends,
                  i32 *own, i32 *last, i64 *counts) {
    for (i64 k = n; k-- > 0;) own[--ends[slots[k]]] = items[k];
    for (i64 slot = 0; slot < n_slots; slot++) {
        i64 *table = counts + groups[slot] * n_items;
        for (i64 k = ends[slot]; k < ends[slot + 1]; k++) {
            table[own[k]] += last[own[k]] <= slot;
            last[own[k]] = (i32)(slot + 1);
        }
    }
}

enum { SIZES = 128 };
static const u128 LARGEST = (u128)1 << 70;

/* 0 for 1, 1 for 2, 2 for 3 and 4, ... */
static i64 bucket_of(u128 size) {
    u64 high = (u64)((size - 1) >> 64), low = (u64)(size - 1);
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

/* A summary: entries of a group, a code, a bucket, how many people, and both halves of their total. `places`: where
 * a group's entries are, by code and bucket, from 1; after the group 0 again. `own`: its first entry. */
typedef struct { i64 n, group, own; i64 *entries; i32 *places; } Summary;

static void add_size(Summary *made, i64 code, u128 size) {
    i64 bucket = bucket_of(size);
    i32 *place = made->places + code * SIZES + bucket;
    if (!*place) {
        i64 *fresh = made->entries + 6 * made->n;
        fresh[0] = made->group;
        fresh[1] = code;
        fresh[2] = bucket;
        fresh[3] = fresh[4] = fresh[5] = 0;
        *place = (i32)++made->n;
    }
    i64 *entry = made->entries + 6 * (i64)(*place - 1);
    u128 total = ((u128)(u64)entry[5] << 64 | (u64)entry[4]) + size;
    entry[3]++;
    entry[4] = (i64)(u64)total;
    entry[5] = (i64)(u64)(total >> 64);
}

static void next_group(Summary *made) {
    for (; made->own < made->n; made->own++) {
        i64 *entry = made->entries + 6 * made->own;
        made->places[entry[1] * SIZES + entry[2]] = 0;
    }
    made->group++;
}

/* Of DP_AVG (avg.py); codes are from 0 for -1. */
static void add_mean(Summary *made, u64 own, u128 sum, i64 bound, i64 shift, i64 last) {
    u64 kept = bound && (u64)bound < own ? (u64)bound : own;
    i64 negative = (i64)(sum >> 127), end = bound ? 0 : bucket_of(own);
    if (negative) sum = -sum;
    u128 whole = (sum < LARGEST ? sum : LARGEST) << shift;
    u128 part = whole >> 64 ? whole / own : (u64)whole / own;
    u64 rest = own >> 31 ? 0 : (u64)(whole - part * own); /* as avg.py: _FEW */
    add_size(made, 0, kept);
    for (i64 place = 0; place <= end && place <= last; place++) {
        u64 most = bound ? kept : (u64)1 << place;
        u128 size = !bound && place == end ? whole : part * most + rest * most / own;
        if (size) add_size(made, 1 + 4 * place + 2 * (place == end) + negative, size);
    }
}

/* Summarize groups from `first` on, until there may be no room for one more; return how many entries, and in
 * `first` the next group. People ends[g] .. ends[g + 1] - 1 are those of group g; of person k there are rows[k]
 * rows, and both halves of their sum, which is taken from the middle of a range of so many steps, in halves.
 * bound: of rows, or 0; steps: 0 without a range; shift: the bits of a sum's part of a unit; last: the last place. */
i64 summarize_means(const i64 *rows, const i64 *sums, const i64 *ends, i64 n_groups, i64 bound, i64 steps, i64 shift,
                    i64 last, i64 *first, i32 *places, i64 *entries, i64 room) {
    Summary made = {0, *first, 0, entries, places};
    for (; made.group < n_groups && room - made.n >= (4 * last + 5) * SIZES; next_group(&made)) {
        for (i64 k = ends[made.group]; k < ends[made.group + 1]; k++) {
            u128 sum = (u128)sums[2 * k + 1] << 64 | (u64)sums[2 * k];
            if (steps) sum = 2 * sum - (u128)steps * (u64)rows[k];
            if (rows[k]) add_mean(&made, (u64)rows[k], sum, bound, shift, last);
        }
    }
    *first = made.group;
    return made.n;
}

/* Summarize people's rows in the same way, with the code 0. order: the people of each group, one group after the
 * other. A person's rows count up to the bound. */
i64 summarize_counts(const i32 *order, const i32 *counts, const i64 *ends, i64 n_groups, i64 bound, i64 *first,
                     i32 *places, i64 *entries, i64 room) {
    Summary made = {0, *first, 0, entries, places};
    for (; made.group < n_groups && room - made.n >= SIZES; next_group(&made))
        for (i64 k = ends[made.group]; k < ends[made.group + 1]; k++) {
            i64 own = counts[order[k]];
            if (own) add_size(&made, 0, (u128)(own < bound ? own : bound));
        }
    *first = made.group;
    return made.n;
}

/* Summarize sums in the same way; code 0 for sums above 0, and 1 for those below. A size counts up to the bound, of
 * two halves. */
i64 summarize_sums(const i32 *order, const i64 *sums, const i64 *ends, i64 n_groups, i64 low, i64 high, i64 *first,
                   i32 *places, i64 *entries, i64 room) {
    Summary made = {0, *first, 0, entries, places};
    u128 bound = (u128)high << 64 | (u64)low;
    for (; made.group < n_groups && room - made.n >= 2 * SIZES; next_group(&made))
        for (i64 k = ends[made.group]; k < ends[made.group + 1]; k++) {
            const i64 *sum = sums + 2 * (i64)order[k];
            u128 size = (u128)sum[1] << 64 | (u64)sum[0];
            if (!size) continue;
            if (sum[1] < 0) size = -size;
            if (size > bound) size = bound;
            add_size(&made, sum[1] < 0, size);
        }
    *first = made.group;
    return made.n;
}

/* Add people to tables of how many are in each bucket, and of what their rows add up to, for each side and group,
 * from group `first` on. Slots of one person are next to each other; counts: their rows. Side 0: people in the group,
 * by their rows there; side 1: by their largest number of rows in a group; sides 2 and 3: these, by their rows in all
 * groups. Of sides 1 and 3 a person is in one group. */
void summarize_rows(const i32 *owners, const i32 *groups, const i32 *counts, i64 n, i64 first, i64 n_groups,
                    i64 n_sizes, i64 *table) {
    i64 size_of_side = 2 * n_groups * n_sizes;
    for (i64 k = 0, end; k < n; k = end) {
        i64 whole = 0, largest = k;
        for (end = k; end < n && owners[end] == owners[k]; end++) {
            whole += counts[end];
            if (counts[end] > counts[largest]) largest = end;
        }
        if (!whole) continue;
        i64 of_all = bucket_of((u128)whole);
        for (i64 j = k; j < end; j++) {
            i64 group = groups[j] - first, own = counts[j];
            if (!own || group < 0 || group >= n_groups) continue;
            i64 *cells = table + 2 * group * n_sizes, own_bucket = bucket_of((u128)own);
            for (i64 is_all = 0; is_all < 2; is_all++) {
                i64 *cell = cells + 2 * is_all * size_of_side + 2 * (is_all ? of_all : own_bucket);
                cell[0]++;
                cell[1] += own;
                if (j != largest) continue;
                cell += size_of_side;
                cell[0]++;
                cell[1] += is_all ? whole : own;
            }
        }
    }
}
