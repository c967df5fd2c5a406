/* The search from uncovered items, on the input as it came. Proof: flow.md. */
#include "flow.h"

i64 size_of_flow(void) { return sizeof(Flow); }

int little_room(const Flow *f) { return clearly_less(f->room, uncovered(f)); }

/* Put an uncovered item into a new slot of a person with room. */
static inline void hold(Flow *f, i32 item, i32 person) {
    i32 slot = (i32)++f->n_covered;
    f->slot_item[slot] = item;
    f->next_slot[slot] = f->first_slot[person];
    f->first_slot[person] = slot;
    f->cover[item] = person;
    f->load[person]++;
    f->room--;
}

/* Move what a pass has kept, order[first:kept], up to where it stopped. */
static void close_gap(Flow *f, i64 first, i64 kept, i64 here) {
    while (kept > first) f->order[--here] = f->order[--kept];
}

/* Give each uncovered item to its first person with room. */
static void greedy_from_items(Flow *f) {
    i64 first = f->n_covered, here = first, kept = first;
    while (here < f->coverable && f->room > 0) {
        i32 item = f->order[here++];
        i64 begin = f->offsets[item], end = f->offsets[item + 1];
        i64 edge = first_with_room(f, begin, end);
        f->n_reads += edge - begin + 1;
        f->asked[item] = (i32)f->bound;
        f->full[item] = (i32)(edge - begin);
        if (edge < end) hold(f, item, f->people[edge]);
        else f->order[kept++] = item;
    }
    close_gap(f, first, kept, here);
}

/* Give the path's last item to a person with room, and to each slot on it the item before. */
static void shift_items(Flow *f, i64 depth, i32 person) {
    hold(f, f->path_item[depth], person);
    for (i64 d = depth; d > 0; d--) {
        i32 item = f->path_item[d - 1];
        f->slot_item[f->path_slot[d]] = item;
        f->cover[item] = f->people[f->offsets[item] + f->path_edge[d - 1] - 1];
    }
}

enum { FAILED_CLEAN, FAILED, FOUND };

/* Look for a path: uncovered item, person, item held, person, ..., person with room; shift along it.
 * Everyone met from log[n_met] on is marked DEAD; *n_met counts them. */
static int search_from_item(Flow *f, i32 root, i64 *n_met) {
    i64 depth = 0;
    int result = FAILED_CLEAN, entering = 1;
    f->path_item[0] = root;
    while (depth >= 0) {
        i32 item = f->path_item[depth];
        i64 begin = f->offsets[item], end = f->offsets[item + 1], edge;
        if (entering) {
            i64 passed = f->asked[item] == f->bound ? f->full[item] : 0;
            edge = first_with_room(f, begin + passed, end);
            f->n_reads += edge - begin - passed + 4; /* its other reads cost as much */
            f->asked[item] = (i32)f->bound;
            f->full[item] = (i32)(edge - begin);
            if (edge < end) {
                shift_items(f, depth, f->people[edge]);
                return FOUND;
            }
            f->path_edge[depth] = 0;
        }
        edge = begin + f->path_edge[depth];
        f->n_reads -= edge;
        while (edge < end) {
            i32 met = f->mark[f->people[edge]];
            if (met < f->phase) break;
            if (met == f->phase) result = FAILED;
            edge++;
        }
        f->n_reads += edge + 1;
        entering = edge < end;
        if (entering) {
            i32 person = f->people[edge];
            f->mark[person] = DEAD;
            f->log[(*n_met)++] = person;
            f->path_edge[depth++] = (i32)(edge - begin + 1);
            f->path_slot[depth] = f->first_slot[person];
        } else if (depth > 0 && f->next_slot[f->path_slot[depth]] > 0) {
            f->path_slot[depth] = f->next_slot[f->path_slot[depth]];
            entering = 1;
        } else {
            depth--;
        }
        if (entering) f->path_item[depth] = f->slot_item[f->path_slot[depth]];
    }
    return result;
}

/* How far a first phase may read that has looked at `seen` of its starts for one part in `parts` of the edges: as
 * far as any if most of them are dead, once more the edges if it is fast, else no further. */
static i64 tried_limit(const Flow *f, i64 most, i64 parts, i64 starts, i64 seen, i64 clean) {
    int settled = parts > 1 ? 8 * clean >= 7 * seen : 5 * clean >= 3 * seen;
    if (parts * seen < starts && little_room(f)) return 0;
    if (settled && 4 * parts * seen >= starts) return most;
    if (5 * parts * seen < 8 * starts) return 0;
    return at_most(f->n_reads + f->n_edges, most);
}

/* Search once from each uncovered item, meeting no one twice, up to a limit: `sure` reads, or `most`, unless a
 * first phase does badly on trial. Return how many are undecided, or -1 if the phase has not come to its end. */
static i64 phase_from_items(Flow *f, i64 sure, i64 most, int first_phase) {
    i64 first = f->n_covered, here = first, kept = first, n_met = f->n_dead, undecided = 0, clean = 0;
    i64 starts = f->coverable - first, limit = most, began = f->n_reads, parts = first_phase ? 4 : 0;
    f->phase++;
    while (here < f->coverable && f->room > 0) {
        if (parts > 0 && f->n_reads > at_least(began + f->n_edges / parts, sure)) {
            limit = tried_limit(f, most, parts, starts, here - first, clean);
            parts /= 4;
        }
        if (f->n_reads > at_least(limit, sure)) break;
        i32 root = f->order[here++];
        f->n_reads++;
        int result = FAILED_CLEAN;
        if (f->asked[root] != -f->bound) {
            result = search_from_item(f, root, &n_met);
            if (result == FAILED_CLEAN) f->asked[root] = (i32)-f->bound;
        }
        if (result != FOUND) f->order[kept++] = root;
        if (result == FAILED_CLEAN) f->n_dead = n_met;
        clean += result == FAILED_CLEAN;
        undecided += result == FAILED;
        while (n_met > f->n_dead) f->mark[f->log[--n_met]] = (i32)f->phase;
    }
    if (here < f->coverable && f->room > 0) undecided = -1;
    close_gap(f, first, kept, here);
    return undecided;
}

/* Let people alive cover items up to the bound, by at most `step` more each. Up to `sure` reads phases go on
 * as they like, and up to `most` if the first one does well on trial. Returns 0 if undecided items are left: then
 * only cover and load may be used. */
int raise_from_items(Flow *f, i64 step, i64 sure, i64 most) {
    f->room = f->n_alive * step;
    f->n_dead = 0;
    greedy_from_items(f);
    i64 undecided = uncovered(f);
    for (int first_phase = 1; undecided > 0 && f->room > 0; first_phase = 0)
        undecided = phase_from_items(f, sure, most, first_phase);
    for (i64 k = 0; k < f->n_dead; k++) f->mark[f->log[k]] = 0;
    if (f->room > 0) f->n_alive = f->n_dead;
    return f->room == 0 || undecided == 0;
}

/* Take over a cover, whose items come first in order. */
void hold_cover(Flow *f, const i32 *cover, i64 n_items) {
    for (i64 item = 0; item < n_items; item++)
        if (cover[item] >= 0) hold(f, (i32)item, cover[item]);
}
