/* What the two searches of the flow share. They use no Python, no library and no memory of their own. graph.py has
 * checked the input, so every code and offset is in its range. Proof and terms: flow.md. */
#pragma once
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;

/* All fields have eight bytes; kernels.py lists their names in the same order. */
typedef struct {
    i64 n_edges, n_items, bound, coverable, n_covered; /* coverable: items that have people */
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
    i32 *fresh; /* per person: where in items the first uncovered one may be */
    i32 *next;  /* per person: where in items the search goes on */
    i32 *level; /* per person: at most the distance to an uncovered item, 0 if not met, GONE if dead for good */
    i32 *alive; /* people who may still gain; the first n_exposed of them have room */
    i32 *queue, *path;
} Flow;

enum { DEAD = INT32_MAX, GONE = -1 };

static inline i64 at_most(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 at_least(i64 a, i64 b) { return a > b ? a : b; }
static inline int clearly_less(i64 a, i64 b) { return a < b - b / 4; }
static inline i64 uncovered(const Flow *f) { return f->coverable - f->n_covered; }

/* Where in a run someone has room, or its end. */
static inline i64 first_with_room(const Flow *f, i64 edge, i64 end) {
    while (edge < end && f->load[f->people[edge]] >= f->bound) edge++;
    return edge;
}

/* Whether searching from the people is the shorter way: there is less room than there are items to cover. */
int little_room(const Flow *f);
