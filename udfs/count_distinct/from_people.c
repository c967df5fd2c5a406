/* The search from people with room, on lists of their items: a start after Karp and Sipser, then phases of
 * layers and of forests. Proof: flow.md. */
#include "flow.h"

static inline i32 first_uncovered(Flow *f, i32 person) {
    i32 edge = f->fresh[person], stop = f->stop[person];
    while (edge < stop && f->cover[f->items[edge]] >= 0) edge++;
    return f->fresh[person] = edge;
}

typedef struct {
    i32 *items, *people; /* with one taker left; with room for all that is left */
    i64 n_items, n_people;
} Stacks;

typedef struct { /* of a person: uncovered items minus room; the last of their items taken */
    i32 excess, counted;
} Choice;

static void take(Flow *f, Stacks *s, i32 person, i32 item) {
    Choice *choice = (Choice *)f->choice;
    f->cover[item] = person;
    f->takers[item] = 0;
    f->load[person]++;
    f->n_covered++;
    choice[person].counted = item;
    for (i64 edge = f->offsets[item]; edge < f->offsets[item + 1]; edge++) {
        i32 other = f->people[edge];
        if (choice[other].counted == item) continue;
        choice[other].counted = item;
        if (--choice[other].excess == 0) s->people[s->n_people++] = other;
    }
    if (f->load[person] < f->bound) return;
    for (i64 edge = f->start[person]; edge < f->stop[person]; edge++) {
        i32 other = f->items[edge];
        if (f->takers[other] > 0 && --f->takers[other] == 1) s->items[s->n_items++] = other;
    }
}

/* Take what costs no one else, until the stacks are empty. */
static void take_forced(Flow *f, Stacks *s) {
    while (s->n_items + s->n_people > 0) {
        if (s->n_items > 0) {
            i32 item = s->items[--s->n_items];
            if (f->takers[item] == 0) continue;
            take(f, s, f->people[first_with_room(f, f->offsets[item], f->offsets[item + 1])], item);
        } else {
            i32 person = s->people[--s->n_people];
            for (i64 edge = f->start[person]; edge < f->stop[person]; edge++)
                if (f->cover[f->items[edge]] < 0) take(f, s, person, f->items[edge]);
        }
    }
}

/* Cover items up to the bound: first where there is no choice, then one item of choice, and so on. */
void start_from_people(Flow *f) {
    Stacks s = {f->order, f->queue, 0, 0};
    Choice *choice = (Choice *)f->choice;
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k], room = (i32)f->bound - f->load[person], left = 0;
        for (i64 edge = f->start[person]; edge < f->stop[person] && room > 0; edge++) {
            i32 item = f->items[edge];
            if (f->cover[item] >= 0) continue;
            left++;
            f->takers[item]++;
        }
        choice[person] = (Choice){left - room, -1};
        if (left > 0 && left <= room) s.people[s.n_people++] = person;
    }
    for (i64 k = 0; k < f->coverable; k++)
        if (f->takers[f->order[k]] == 1) s.items[s.n_items++] = f->order[k];
    take_forced(f, &s);
    for (i64 k = 0; k < f->n_alive; k++) {
        i32 person = f->alive[k], edge;
        while (f->load[person] < f->bound && (edge = first_uncovered(f, person)) < f->stop[person]) {
            take(f, &s, person, f->items[edge]);
            take_forced(f, &s);
        }
        if (f->load[person] < f->bound) {
            f->alive[k] = f->alive[f->n_exposed];
            f->alive[f->n_exposed++] = person;
        }
    }
}

static inline void meet(Flow *f, i32 person, i32 level, i64 *n_met) {
    f->level[person] = level;
    f->next[person] = f->start[person];
    f->queue[(*n_met)++] = person;
}

/* Put everyone who can be reached from the exposed into layers, up to the first layer where someone
 * has an uncovered item; return that layer, or 0 if there is none. *n_met: how many are in queue. */
static i32 make_layers(Flow *f, i64 *n_met, i64 *n_reads) {
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
        *n_reads += f->stop[person] - f->start[person];
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

/* Shift along a maximal set of shortest augmenting paths. Returns the edges read to make layers. */
static i64 search_in_layers(Flow *f, i64 *n_met) {
    i64 n_reads = f->n_exposed;
    i32 last = make_layers(f, n_met, &n_reads);
    for (i64 k = 0; k < f->n_exposed && last > 0; k++) {
        i32 root = f->alive[k];
        while (f->load[root] < f->bound && f->n_covered < f->coverable)
            if (!search_down(f, root, last)) break;
    }
    return n_reads;
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
 * Returns the edges read. For those in a tree, level is its root + 1, path is the person before them, and next is
 * where in that person's list they were found; of a root whose tree has ended, next is -1. */
static i64 grow_forest(Flow *f, i64 *n_met) {
    i64 n_reads = f->n_exposed;
    for (i64 k = 0; k < f->n_exposed; k++) meet(f, f->alive[k], f->alive[k] + 1, n_met);
    for (i64 head = 0; head < *n_met && f->n_covered < f->coverable; head++) {
        i32 person = f->queue[head], root = f->level[person] - 1, edge;
        if (f->next[root] < 0) continue;
        edge = first_uncovered(f, person);
        if (edge < f->stop[person]) {
            shift_in_tree(f, root, person, edge);
            continue;
        }
        n_reads += f->stop[person] - f->start[person];
        for (edge = f->start[person]; edge < f->stop[person]; edge++) {
            i32 holder = f->cover[f->items[edge]];
            if (f->level[holder] != 0) continue;
            meet(f, holder, root + 1, n_met);
            f->path[holder] = person;
            f->next[holder] = edge;
        }
    }
    return n_reads;
}

/* Meet all people who have the item. */
static void meet_takers(Flow *f, i32 item, i64 *n_met) {
    for (i64 edge = f->offsets[item]; edge < f->offsets[item + 1]; edge++)
        if (f->level[f->people[edge]] == 0) meet(f, f->people[edge], 1, n_met);
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

/* Search backwards from the uncovered items; those alive who are not met can never come to one, and are dead. */
void drop_cut_off(Flow *f) {
    i64 n_met = 0;
    for (i64 item = 0; item < f->n_items; item++)
        if (f->cover[item] < 0) meet_takers(f, (i32)item, &n_met);
    for (i64 head = 0; head < n_met; head++) {
        i32 person = f->queue[head];
        for (i64 edge = f->start[person]; edge < f->stop[person]; edge++)
            if (f->cover[f->items[edge]] == person) meet_takers(f, f->items[edge], &n_met);
    }
    for (i64 k = 0; k < f->n_alive; k++)
        if (f->level[f->alive[k]] == 0) f->level[f->alive[k]] = GONE;
    for (i64 k = 0; k < n_met; k++) f->level[f->queue[k]] = 0;
    keep_alive(f);
}

/* One phase: a forest, if it may be one, while the forests since the last layers have read at most twice what those
 * have; else layers. Returns 1 if another phase may find more. */
int phase_from_people(Flow *f, int may_be_forest) {
    i64 n_met = 0, kept = 0, before = f->n_covered;
    if (may_be_forest && f->forest_reads > 0) f->forest_reads -= grow_forest(f, &n_met);
    else f->forest_reads = 2 * search_in_layers(f, &n_met);
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
