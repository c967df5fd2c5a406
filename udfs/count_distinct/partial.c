/* The kernels of partial.py: no Python, no library, no memory of their own. Every code and offset is in
 * its range. Proof: partial.md. */
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;

/* Put the people of these pairs into the runs of their items, each before those that came earlier:
 * places comes with the ends of the runs and leaves with their starts when all pairs have come. */
void fill_runs(const i32 *items, const i32 *people, i64 n_pairs, i32 *places, i32 *runs) {
    for (i64 k = 0; k < n_pairs; k++) runs[--places[items[k]]] = people[k];
}

/* Put into reached all items that an alternating path from an uncovered item comes to, each once, and
 * return how many. cover: per item, who covers it, or -1. first: per person, -1; next: per item. */
i64 reach_from_uncovered(const i32 *offsets, const i32 *people, i64 n_items, const i32 *cover, i32 *first,
                         i32 *next, i32 *reached) {
    i64 n_reached = 0;
    for (i64 item = 0; item < n_items; item++) {
        i32 person = cover[item];
        if (person < 0) {
            reached[n_reached++] = (i32)item;
        } else {
            next[item] = first[person];
            first[person] = (i32)item;
        }
    }
    for (i64 head = 0; head < n_reached; head++) {
        i32 item = reached[head];
        for (i64 edge = offsets[item]; edge < offsets[item + 1]; edge++) {
            i32 person = people[edge];
            for (i32 held = first[person]; held >= 0; held = next[held]) reached[n_reached++] = held;
            first[person] = -1;
        }
    }
    return n_reached;
}
