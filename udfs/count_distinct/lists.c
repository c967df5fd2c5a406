/* Lists of items, and the greedy cover: no Python, no library, no memory of their own. graph.py has checked
 * the input, so every code and offset is in its range. Proof: greedy.md. */
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;

/* Put the items that have people into order, small runs first; runs of `most` or more count as equal.
 * places: most + 1 zeros. Returns how many items there are. */
i64 order_by_size(const i32 *offsets, i64 n_items, i64 most, i32 *places, i32 *order) {
    i32 total = 0;
    for (i64 item = 0; item < n_items; item++) {
        i64 size = offsets[item + 1] - offsets[item];
        places[size < most ? size : most]++;
    }
    for (i64 size = 1; size <= most; size++) {
        i32 n = places[size];
        places[size] = total;
        total += n;
    }
    for (i64 item = 0; item < n_items; item++) {
        i64 size = offsets[item + 1] - offsets[item];
        if (size > 0) order[places[size < most ? size : most]++] = (i32)item;
    }
    return total;
}

/* Turn the runs into lists, in the given order of items; start and stop come as zeros. */
void lists_by_person(const i32 *offsets, const i32 *people, i64 n_edges, const i32 *order, i64 n_order,
                     i64 n_people, i32 *start, i32 *stop, i32 *items) {
    for (i64 edge = 0; edge < n_edges; edge++) start[people[edge]]++;
    i32 total = 0;
    for (i64 person = 0; person < n_people; person++) {
        i32 size = start[person];
        start[person] = stop[person] = total;
        total += size;
    }
    for (i64 k = 0; k < n_order; k++) {
        i32 item = order[k];
        for (i64 edge = offsets[item]; edge < offsets[item + 1]; edge++) {
            i32 person = people[edge], end = stop[person];
            if (end == start[person] || items[end - 1] != item) {
                items[end] = item;
                stop[person] = end + 1;
            }
        }
    }
}

/* Keep each item once in its run, and move the runs together; return how many items there are then. last: zeros, one
 * for each number of an item. sizes: of the runs, once they are shorter. */
i64 keep_different(const i32 *offsets, i64 n_runs, i32 *items, i32 *last, i64 *sizes) {
    i64 kept = 0;
    for (i64 run = 0; run < n_runs; run++) {
        i64 first = kept;
        for (i64 k = offsets[run]; k < offsets[run + 1]; k++) {
            i32 item = items[k], is_new = last[item] <= run;
            items[kept] = item;
            kept += is_new;
            last[item] = (i32)(run + 1);
        }
        sizes[run] = kept - first;
    }
    return kept;
}

/* One round of the greedy cover: everyone who waits covers their first uncovered item. Moves start past
 * covered items and returns how many still wait; n_covered grows. */
i64 greedy_round(i32 *start, const i32 *stop, const i32 *items, i32 *waiting, i64 n_waiting,
                 uint8_t *covered, i64 *n_covered) {
    i64 kept = 0;
    for (i64 k = 0; k < n_waiting; k++) {
        i32 person = waiting[k], edge = start[person];
        while (edge < stop[person] && covered[items[edge]]) edge++;
        if (edge < stop[person]) {
            covered[items[edge++]] = 1;
            (*n_covered)++;
        }
        if (edge < stop[person]) waiting[kept++] = person;
        start[person] = edge;
    }
    return kept;
}
