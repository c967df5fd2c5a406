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

/* Give each uncovered item to its first person with room. Returns 0 if it stops at a quarter of the items: if
 * nearly all of the rarest are covered and there is as much room as items, few are dead and searches are long. */
static int greedy_from_items(Flow *f, i64 sure) {
    i64 first = f->n_covered, here = first, kept = first;
    int competing = 1;
    while (here < f->coverable && f->room > 0 && competing) {
        i32 item = f->order[here++];
        i64 begin = f->offsets[item], end = f->offsets[item + 1];
        i64 edge = first_with_room(f, begin, end);
        f->n_reads += edge - begin + 1;
        f->asked[item] = (i32)f->bound;
        f->full[item] = (i32)(edge - begin);
        if (edge < end) hold(f, item, f->people[edge]);
        else f->order[kept++] = item;
        if (here == f->coverable / 4 && first == 0 && f->n_reads > sure) {
            i64 spare = f->room - uncovered(f);
            competing = 10 * kept >= here || at_least(spare, -spare) > f->coverable / 32;
        }
    }
    close_gap(f, first, kept, here);
    return competing;
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

typedef struct { /* how far phases may read */
    i64 sure, most;
    int tried, good; /* whether the next one is tried on its way; whether the first one did well */
} ReadLimit;

/* How far a phase may read that has looked at `seen` of its starts for one part in `parts` of the edges: as
 * far as any if most of them are dead, once more the edges if it is fast or has few starts, else no further. */
static i64 tried_limit(const Flow *f, const ReadLimit *allowed, i64 parts, i64 starts, i64 seen, i64 clean) {
    int settled = parts > 1 ? 8 * clean >= 7 * seen : 5 * clean >= 3 * seen;
    if (parts * seen < starts && little_room(f)) return 0;
    if (settled && 4 * parts * seen >= starts) return allowed->most;
    if (5 * parts * seen < 8 * starts && !clearly_less(uncovered(f), f->room)) return 0;
    return at_most(f->n_reads + f->n_edges, allowed->most);
}

/* Search once from each uncovered item, meeting no one twice, up to a limit, and beyond it while all searches so
 * far have failed clean, as nothing that these read is read again, and there is not little room. Return how many
 * are undecided, or -1 if the phase has not come to its end. */
static i64 phase_from_items(Flow *f, ReadLimit *allowed) {
    i64 first = f->n_covered, here = first, kept = first, n_met = f->n_dead, undecided = 0, clean = 0;
    i64 starts = f->coverable - first, limit = allowed->most, began = f->n_reads;
    i64 parts = allowed->tried ? 16 : 0;
    f->phase++;
    while (here < f->coverable && f->room > 0) {
        if (parts > 0 && f->n_reads > at_least(began + f->n_edges / parts, allowed->sure)) {
            limit = tried_limit(f, allowed, parts, starts, here - first, clean);
            parts /= 4;
        }
        int beyond = f->n_reads > at_least(limit, allowed->sure);
        if (beyond && (clean < here - first || little_room(f))) break;
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
    allowed->good &= limit == allowed->most;
    if (here < f->coverable && f->room > 0) undecided = -1;
    close_gap(f, first, kept, here);
    return undecided;
}

/* Let people alive cover items up to the bound, by at most `step` more each. Up to `sure` reads phases go on
 * as they like, and up to `most` if the first one has done well on trial. Else each later one may read 3/4
 * of what the last one has read, or an eighth of the edges if that is more. None follows one that has read
 * all edges if little room is left. Returns 0 if undecided items are left: then only cover and load may be used. */
int raise_from_items(Flow *f, i64 step, i64 sure, i64 most) {
    ReadLimit allowed = {sure, most, 1, 1};
    f->room = f->n_alive * step;
    f->n_dead = 0;
    i64 undecided = greedy_from_items(f, sure) ? uncovered(f) : -1;
    while (undecided > 0 && f->room > 0) {
        i64 more = -f->n_reads;
        undecided = phase_from_items(f, &allowed);
        more += f->n_reads;
        if (undecided > 0 && more > f->n_edges && f->n_reads > sure && little_room(f)) undecided = -1;
        more = at_least(3 * more / 4, f->n_edges / 8);
        if (!allowed.good) allowed.most = at_most(f->n_reads + more, most);
        allowed.tried = 0;
    }
    for (i64 k = 0; k < f->n_dead; k++) f->mark[f->log[k]] = 0;
    if (f->room > 0) f->n_alive = f->n_dead;
    return f->room == 0 || undecided == 0;
}

/* Take over a cover, whose items come first in order. */
void hold_cover(Flow *f, const i32 *cover, i64 n_items) {
    for (i64 item = 0; item < n_items; item++)
        if (cover[item] >= 0) hold(f, (i32)item, cover[item]);
}
