/* The search from people with room, on lists of their items. Proof: flow.md. */
#include "flow.h"

static inline i32 first_uncovered(Flow *f, i32 person) {
    i32 edge = f->fresh[person], stop = f->stop[person];
    while (edge < stop && f->cover[f->items[edge]] >= 0) edge++;
    return f->fresh[person] = edge;
}

static inline void meet(Flow *f, i32 person, i32 level, i64 *n_met) {
    f->level[person] = level;
    f->next[person] = f->start[person];
    f->queue[(*n_met)++] = person;
}

/* Put everyone who can be reached from the exposed into layers, up to the first layer where someone
 * has an uncovered item; return that layer, or 0 if there is none. *n_met: how many are in queue. */
static i32 make_layers(Flow *f, i64 *n_met) {
    i32 last = 0;
    for (i64 k = 0; k < f->n_exposed; k++) {
        meet(f, f->alive[k], 1, n_met);
        if (first_uncovered(f, f->alive[k]) < f->stop[f->alive[k]]) last = 1;
    }
    for (i64 head = 0; head < *n_met && last != 1; head++) {
        i32 person = f->queue[head], layer = f->level[person];
        if (last && layer > last) break;
        if (first_uncovered(f, person) < f->stop[person]) last = layer;
        if (last) continue;
        for (i64 edge = f->start[person]; edge < f->stop[person]; edge++) {
            i32 holder = f->cover[f->items[edge]];
            if (f->level[holder] == 0) meet(f, holder, layer + 1, n_met);
        }
    }
    return last;
}

/* Look for an augmenting path down the layers: person with room, item, its holder, item, ..., uncovered item;
 * shift along it. Those who lead nowhere are taken out of the layers. Returns whether there was one. */
static int search_down(Flow *f, i32 root, i32 last) {
    i64 depth = 0;
    i32 person = f->path[0] = root, edge;
    for (;;) {
        i32 layer = f->level[person], stop = f->stop[person];
        if (layer == last) {
            edge = first_uncovered(f, person);
            if (edge < stop) break;
        } else {
            for (edge = f->next[person]; edge < stop; edge++)
                if (f->level[f->cover[f->items[edge]]] == layer + 1) break;
            f->next[person] = edge;
            if (edge < stop) {
                person = f->path[++depth] = f->cover[f->items[edge]];
                continue;
            }
        }
        f->level[person] = 0;
        if (depth == 0) return 0;
        person = f->path[--depth];
        f->next[person]++;
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

/* Shift along a maximal set of shortest augmenting paths. */
static void search_in_layers(Flow *f, i64 *n_met) {
    i32 last = make_layers(f, n_met);
    for (i64 k = 0; k < f->n_exposed && last > 0; k++) {
        i32 root = f->alive[k];
        while (f->load[root] < f->bound && f->n_covered < f->coverable)
            if (!search_down(f, root, last)) break;
    }
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
static void grow_forest(Flow *f, i64 *n_met) {
    for (i64 k = 0; k < f->n_exposed; k++) meet(f, f->alive[k], f->alive[k] + 1, n_met);
    for (i64 head = 0; head < *n_met && f->n_covered < f->coverable; head++) {
        i32 person = f->queue[head], root = f->level[person] - 1, edge;
        if (f->next[root] < 0) continue;
        edge = first_uncovered(f, person);
        if (edge < f->stop[person]) {
            shift_in_tree(f, root, person, edge);
            continue;
        }
        for (edge = f->start[person]; edge < f->stop[person]; edge++) {
            i32 holder = f->cover[f->items[edge]];
            if (f->level[holder] != 0) continue;
            meet(f, holder, root + 1, n_met);
            f->path[holder] = person;
            f->next[holder] = edge;
        }
    }
}

/* Keep those of the people alive who are not GONE, and of the first n_exposed those with room as exposed. */
static void keep_alive(Flow *f) {
    i64 kept = 0, exposed = 0;
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k];
        if (f->level[person] == GONE) continue;
        f->alive[kept++] = person;
        if (k < f->n_exposed) exposed = kept;
    }
    f->n_alive = kept;
    f->n_exposed = exposed;
}

/* One phase, of a forest or of layers. Returns 1 if another phase may find more. */
int phase_from_people(Flow *f, int forest) {
    i64 n_met = 0, kept = 0, before = f->n_covered;
    if (forest) grow_forest(f, &n_met);
    else search_in_layers(f, &n_met);
    for (i64 k = 0; k < n_met; k++) f->level[f->queue[k]] = f->n_covered > before ? 0 : GONE;
    for (i64 k = 0; k < f->n_exposed && f->n_covered > before; k++) {
        i32 person = f->alive[k];
        if (f->load[person] == f->bound) continue;
        f->alive[k] = f->alive[kept];
        f->alive[kept++] = person;
    }
    f->n_exposed = kept;
    if (kept > 0 && f->n_covered < f->coverable) return 1;
    keep_alive(f);
    f->n_exposed = f->n_alive; /* at the next bound */
    return 0;
}
