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

enum { SIZES = 96 };
static const u128 LARGEST = (u128)1 << 70;

/* 0 for 1, 1 for 2, 2 for 3 and 4, ... */
static i64 bucket_of(u128 size) {
    u64 high = (u64)((size - 1) >> 64), low = (u64)(size - 1);
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

static void add_size(i64 *table, i64 code, u128 size) {
    i64 *entry = table + 3 * (code * SIZES + bucket_of(size));
    u128 total = ((u128)(u64)entry[2] << 64 | (u64)entry[1]) + size;
    entry[0]++;
    entry[1] = (i64)(u64)total;
    entry[2] = (i64)(u64)(total >> 64);
}

/* Add people to the summary of DP_AVG (avg.py): for each code, from 0 for -1, and each bucket how many people,
 * and both halves of their total. Of person k there are rows[k] rows, and both halves of their sum.
 * bound: of rows, or 0; shift: the bits of a sum's part of a unit; last: the last place. */
void summarize_means(const i64 *rows, const i64 *sums, i64 n, i64 bound, i64 shift, i64 last, i64 *table) {
    for (i64 k = 0; k < n; k++) {
        u64 own = (u64)rows[k], kept = bound && (u64)bound < own ? (u64)bound : own;
        if (!own) continue;
        u128 sum = (u128)sums[2 * k + 1] << 64 | (u64)sums[2 * k];
        i64 negative = sums[2 * k + 1] < 0, end = bound ? 0 : bucket_of(own);
        if (negative) sum = -sum;
        u128 whole = (sum < LARGEST ? sum : LARGEST) << shift;
        u128 part = whole >> 64 ? whole / own : (u64)whole / own;
        u64 rest = own >> 31 ? 0 : (u64)(whole - part * own); /* as avg.py: _FEW */
        add_size(table, 0, kept);
        for (i64 place = 0; place <= end && place <= last; place++) {
            u64 most = bound ? kept : (u64)1 << place;
            u128 size = !bound && place == end ? whole : part * most + rest * most / own;
            if (size) add_size(table, 1 + 4 * place + 2 * (place == end) + negative, size);
        }
    }
}
