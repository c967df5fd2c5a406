/* The kernels of the flow: no Python, no library, no memory of their own. graph.py has checked the input,
 * so every code and offset is in its range. Proof: flow.md. */
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;

/* All fields have eight bytes; kernels.py lists their names in the same order. */
typedef struct {
    i64 n_edges, bound, coverable, n_covered; /* coverable: items that have people */
    i64 room;    /* what all people alive can still cover at this bound */
    i64 n_alive; /* people who may still gain at a higher bound */
    i64 n_reads; /* edges read by the search from items */
    i64 phase, n_dead, n_exposed; /* n_dead: people in log */
    const i32 *offsets, *people; /* the input: a run of people for each item */
    /* from items */
    i32 *order; /* from n_covered on: uncovered items, rarest first */
    i32 *cover; /* per item: who covers it, or -1 */
    i32 *asked; /* per item: the last bound that asked its people for room; -bound if dead */
    i32 *full;  /* per item: at that bound, so many at the start of its run have no room */
    i32 *slot_item, *next_slot; /* per slot, from 1 on: the item held; the same person's next slot */
    i32 *first_slot;            /* per person */
    i32 *load;                  /* per person: items covered */
    i32 *mark;                  /* per person: the last phase that met them, or DEAD */
    i32 *log;                   /* the people marked DEAD at this bound */
    i32 *path_item, *path_slot, *path_edge;
    /* from people */
    const i32 *start, *stop, *items; /* a list of items for each person, without repetitions */
    i32 *takers; /* per item: how many people with room have it */
    i32 *choice; /* per person: a Choice */
    i32 *fresh;  /* per person: where in items the first uncovered one may be */
    i32 *next;   /* per person: where in items the search of this phase goes on */
    i32 *level;  /* per person: breadth-first layer, 0 if not met, GONE if dead for good */
    i32 *alive;  /* people who may still gain; the first n_exposed of them have room */
    i32 *queue, *path;
} Flow;

enum { DEAD = INT32_MAX, GONE = -1 };
i64 size_of_flow(void) { return sizeof(Flow); }

static inline i64 at_most(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 at_least(i64 a, i64 b) { return a > b ? a : b; }
static inline int clearly_less(i64 a, i64 b) { return a < b - b / 4; }
static inline i64 uncovered(const Flow *f) { return f->coverable - f->n_covered; }

/* Whether searching from the people is the shorter way: there is less room than there are items to cover. */
int little_room(const Flow *f) { return clearly_less(f->room, uncovered(f)); }

/* ---- the flow: search from uncovered items, on the input as it came ---- */

static inline i64 first_with_room(const Flow *f, i64 edge, i64 end) {
    while (edge < end && f->load[f->people[edge]] >= f->bound) edge++;
    return edge;
}

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

/* Search once from each uncovered item, meeting no one twice. Return how many are undecided, or -1 if
 * the phase has not come to its end. */
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
        if (f->n_reads > at_least(limit, allowed->sure)) break;
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

/* ---- the flow: a start after Karp and Sipser, then search from people, on lists of items ---- */

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

/* Look for a path: person with room, item, its holder, item, ..., uncovered item; shift along it.
 * It leads down the layers if there is a last one. Otherwise it meets people on no layer, who become
 * GONE and join the queue; result says whether the search ran into someone on a layer. */
static int search_from_person(Flow *f, i32 root, i32 last, i64 *n_met) {
    i64 depth = 0;
    i32 person = f->path[0] = root, edge;
    int result = FAILED_CLEAN;
    for (;;) {
        i32 layer = f->level[person], wanted = last ? layer + 1 : 0, holder = 0;
        if (last == 0 || layer == last) {
            edge = first_uncovered(f, person);
            if (edge < f->stop[person]) break;
        }
        for (edge = f->next[person]; layer != last && edge < f->stop[person]; edge++) {
            holder = f->cover[f->items[edge]];
            if (f->level[holder] == wanted) break;
            if (f->level[holder] > 0) result = FAILED;
        }
        f->next[person] = edge;
        if (layer != last && edge < f->stop[person]) {
            person = f->path[++depth] = holder;
            if (last == 0) meet(f, holder, GONE, n_met);
            continue;
        }
        if (last) f->level[person] = 0;
        if (depth == 0) return result;
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
    return FOUND;
}

/* Search from everyone exposed, down the layers if there is a last one. */
static void search_from_exposed(Flow *f, i32 last) {
    i64 kept = 0, n_met = 0;
    for (i64 k = 0; k < f->n_exposed && f->n_covered < f->coverable; k++) {
        i32 root = f->alive[k];
        int result = FOUND;
        while (f->load[root] < f->bound && f->n_covered < f->coverable && result == FOUND) {
            i64 first = n_met;
            if (last == 0) {
                if (f->level[root]) break;
                meet(f, root, GONE, &n_met);
            }
            result = search_from_person(f, root, last, &n_met);
            for (i64 j = first; j < n_met && result != FAILED_CLEAN; j++) f->level[f->queue[j]] = 1;
        }
        if (f->load[root] < f->bound && f->level[root] != GONE) {
            f->alive[k] = f->alive[kept];
            f->alive[kept++] = root;
        }
    }
    f->n_exposed = kept;
    for (i64 k = 0; k < n_met; k++)
        if (f->level[f->queue[k]] != GONE) f->level[f->queue[k]] = 0;
}

/* Find as many paths of the least length as fit together, then others. Returns 1 if another phase
 * may find more. */
int phase_from_people(Flow *f, int free) {
    i64 n_met = 0, kept = 0;
    i32 last = make_layers(f, &n_met);
    if (last > 0) search_from_exposed(f, last);
    else f->n_exposed = 0;
    for (i64 k = 0; k < n_met; k++) f->level[f->queue[k]] = last ? 0 : GONE;
    if (free) search_from_exposed(f, 0);
    if (f->n_exposed > 0 && f->n_covered < f->coverable) return 1;
    for (i64 k = 0; k < f->n_alive; k++)
        if (f->level[f->alive[k]] != GONE) f->alive[kept++] = f->alive[k];
    f->n_alive = f->n_exposed = kept;
    return 0;
}
