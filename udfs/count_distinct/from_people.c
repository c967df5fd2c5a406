/* The search from people with room, on lists of their items. Proof: flow.md. */
#include "flow.h"

static inline i32 first_uncovered(Flow *f, i32 person) {
    i32 edge = f->fresh[person], stop = f->stop[person];
    while (edge < stop && f->cover[f->items[edge]] >= 0) edge++;
    return f->fresh[person] = edge;
}

static inline int has_room(const Flow *f, i32 person) {
    return f->load[person] < f->bound && f->n_covered < f->coverable;
}

static inline void meet(Flow *f, i32 person, i32 level, i64 *n_met) {
    f->level[person] = level;
    f->next[person] = f->start[person];
    f->queue[(*n_met)++] = person;
}

/* Meet everyone alive who has an item that this holder covers. Return how many edges are read. */
static i64 meet_before(Flow *f, i32 holder, i64 *n_met) {
    i64 reads = f->stop[holder] - f->start[holder];
    for (i64 edge = f->start[holder]; edge < f->stop[holder]; edge++) {
        i32 item = f->items[edge];
        if (f->cover[item] != holder) continue;
        reads += f->offsets[item + 1] - f->offsets[item];
        for (i64 k = f->offsets[item]; k < f->offsets[item + 1]; k++)
            if (f->level[f->people[k]] == 0) meet(f, f->people[k], f->level[holder] + 1, n_met);
    }
    return reads;
}

/* Make level the distance from an uncovered item up to that of the nearest exposed person, for others one more.
 * Who cannot come to one is GONE if no one exposed can. Return how many edges and people are read. */
static i64 set_levels(Flow *f) {
    i64 n_met = 0, head = 0, reads = f->n_alive;
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k];
        if (f->level[person] == GONE) continue;
        f->level[person] = 0;
        if (first_uncovered(f, person) < f->stop[person]) meet(f, person, 1, &n_met);
    }
    for (; head < n_met && f->load[f->queue[head]] == f->bound; head++)
        reads += meet_before(f, f->queue[head], &n_met);
    i32 beyond = head < n_met ? f->level[f->queue[head]] + 1 : GONE;
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k];
        if (f->level[person] != 0) continue;
        f->level[person] = beyond;
        f->next[person] = f->start[person];
    }
    return reads;
}

/* Raise a level to one more than the least among those who hold this person's items. Return how many edges are read. */
static i64 raise_level(Flow *f, i32 person) {
    i32 least = DEAD;
    for (i32 edge = f->start[person]; edge < f->stop[person]; edge++) {
        i32 holder = f->cover[f->items[edge]], level = f->level[holder];
        if (holder == person || level == GONE || level >= least) continue;
        least = level;
        f->next[person] = edge;
    }
    f->level[person] = least < DEAD ? least + 1 : GONE;
    return f->stop[person] - f->start[person];
}

/* Look for an augmenting path down the levels: person with room, item, its holder, item, ..., uncovered item;
 * shift along it. Who leads nowhere is raised. Returns whether there was one; *reads counts edges. */
static int search_down(Flow *f, i32 root, i64 *reads) {
    i64 depth = 0;
    i32 person = f->path[0] = root, edge;
    for (;;) {
        i32 below = f->level[person] - 1, stop = f->stop[person];
        if (below == 0) {
            edge = first_uncovered(f, person);
            if (edge < stop) break;
        } else {
            edge = f->next[person];
            *reads -= edge;
            while (edge < stop && f->level[f->cover[f->items[edge]]] != below) edge++;
            *reads += edge + 1;
            f->next[person] = edge;
            if (edge < stop) {
                person = f->path[++depth] = f->cover[f->items[edge]];
                continue;
            }
        }
        *reads += raise_level(f, person);
        if (depth == 0) return 0;
        person = f->path[--depth];
    }
    f->cover[f->items[edge]] = person;
    while (depth > 0) {
        person = f->path[--depth];
        f->cover[f->items[f->next[person]++]] = person;
    }
    f->load[root]++;
    f->n_covered++;
    return 1;
}

/* Search from those of the first n_roots in queue who have this level. Keep who may still gain; return the least
 * level of them. */
static i32 search_round(Flow *f, i32 level, i64 *n_roots, i64 *reads) {
    i64 kept = 0;
    i32 least = DEAD;
    for (i64 k = 0; k < *n_roots; k++) {
        i32 root = f->queue[k];
        while (f->level[root] == level && f->load[root] < f->bound && f->n_covered < f->coverable)
            if (!search_down(f, root, reads)) break;
        if (f->level[root] == GONE || f->load[root] == f->bound) continue;
        f->queue[kept++] = root;
        if (f->level[root] < least) least = f->level[root];
    }
    *reads += *n_roots;
    *n_roots = kept;
    return least;
}

/* Shift along shortest augmenting paths, and along longer ones until as much is read as for the levels. */
static void search_by_levels(Flow *f) {
    i64 most = set_levels(f), reads = 0, n_roots = f->n_exposed;
    for (i64 k = 0; k < n_roots; k++) f->queue[k] = f->alive[k];
    i32 level = search_round(f, 0, &n_roots, &reads); /* no one has this level */
    do level = search_round(f, level, &n_roots, &reads);
    while (n_roots > 0 && f->n_covered < f->coverable && reads <= most);
}

/* Shift along a tree's path, which ends in an uncovered item: the last person takes it, each one before takes
 * what the next one has held. */
static void shift_in_tree(Flow *f, i32 root, i32 person, i32 edge) {
    for (; person != root; person = f->path[person]) {
        f->cover[f->items[edge]] = person;
        edge = f->next[person];
    }
    f->cover[f->items[edge]] = root;
    f->load[root]++;
    f->n_covered++;
    f->next[root] = -1;
}

/* Grow a tree from everyone exposed, all at once and breadth first, each until it comes to an uncovered item.
 * For those in a tree, level is its root + 1, path is the person before them, and next is
 * where in that person's list they were found; of a root whose tree has ended, next is -1. */
static void grow_forest(Flow *f) {
    i64 n_met = 0, before = f->n_covered;
    for (i64 k = 0; k < f->n_exposed; k++) meet(f, f->alive[k], f->alive[k] + 1, &n_met);
    for (i64 head = 0; head < n_met && f->n_covered < f->coverable; head++) {
        i32 person = f->queue[head], root = f->level[person] - 1, edge;
        if (f->next[root] < 0) continue;
        edge = first_uncovered(f, person);
        if (edge < f->stop[person]) {
            do shift_in_tree(f, root, person, edge);
            while (person == root && has_room(f, root) && (edge = first_uncovered(f, root)) < f->stop[root]);
            continue;
        }
        for (edge = f->start[person]; edge < f->stop[person]; edge++) {
            i32 holder = f->cover[f->items[edge]];
            if (f->level[holder] != 0) continue;
            meet(f, holder, root + 1, &n_met);
            f->path[holder] = person;
            f->next[holder] = edge;
        }
    }
    for (i64 k = 0; k < n_met; k++) f->level[f->queue[k]] = f->n_covered > before ? 0 : GONE;
}

/* End a bound: the people alive are those who are not GONE, and all of them are exposed at the next one. */
static void keep_alive(Flow *f) {
    i64 kept = 0;
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k];
        if (f->level[person] == GONE) continue;
        f->level[person] = 0;
        f->alive[kept++] = person;
    }
    f->n_alive = f->n_exposed = kept;
}

/* One phase, of a forest or of levels. Returns 1 if another phase may find more. */
int phase_from_people(Flow *f, int forest) {
    i64 kept = 0;
    if (forest) grow_forest(f);
    else search_by_levels(f);
    for (i64 k = 0; k < f->n_exposed; k++) {
        i32 person = f->alive[k];
        if (f->load[person] == f->bound || f->level[person] == GONE) continue;
        f->alive[k] = f->alive[kept];
        f->alive[kept++] = person;
    }
    f->n_exposed = kept;
    if (kept > 0 && f->n_covered < f->coverable) return 1;
    keep_alive(f);
    return 0;
}
