/* The kernels of partial.py: no Python, no library, no memory of their own. Every code and offset is in
 * its range. Proof: partial.md. */
#include <stdint.h>

typedef int32_t i32;
typedef int64_t i64;

enum { EMPTY = -1, AHEAD = 16 };

static inline uint64_t place_of(i64 code, i64 key, i64 mask) {
    uint64_t mixed = ((uint64_t)code ^ (uint64_t)key) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 32) * ((uint64_t)key | 1);
    return (mixed ^ mixed >> 29) & (uint64_t)mask;
}

/* Number codes by their place in `codes`, which holds `*size` of them and has room for `most`; add those
 * that are new. places: mask + 1 numbers, EMPTY where no code is; more than `most`. key: a secret, so that
 * no one can choose codes that meet at one place. Return how many were numbered before there was no room
 * left. */
i64 number_by_key(const i64 *given, i64 n, i64 key, i64 *codes, i64 *size, i64 most, i32 *places, i64 mask,
                  i32 *numbers) {
    for (i64 k = 0; k < n; k++) {
        if (k + 2 * AHEAD < n) __builtin_prefetch(&places[place_of(given[k + 2 * AHEAD], key, mask)]);
        if (k + AHEAD < n) {
            i32 ahead = places[place_of(given[k + AHEAD], key, mask)];
            if (ahead != EMPTY) __builtin_prefetch(&codes[ahead]);
        }
        if (k > 0 && given[k] == given[k - 1]) {
            numbers[k] = numbers[k - 1];
            continue;
        }
        uint64_t place = place_of(given[k], key, mask);
        while (places[place] != EMPTY && codes[places[place]] != given[k])
            place = (place + 1) & (uint64_t)mask;
        if (places[place] == EMPTY) {
            if (*size == most) return k;
            places[place] = (i32)*size;
            codes[(*size)++] = given[k];
        }
        numbers[k] = places[place];
    }
    return n;
}

/* The same, with a place for every code from `low` on; there is room for all codes. */
void number_in_range(const i64 *given, i64 n, i64 low, i64 *codes, i64 *size, i32 *places, i32 *numbers) {
    for (i64 k = 0; k < n; k++) {
        i32 *place = &places[given[k] - low];
        if (*place == EMPTY) {
            *place = (i32)*size;
            codes[(*size)++] = given[k];
        }
        numbers[k] = *place;
    }
}

/* Put the numbers of these codes, which differ, into places that are EMPTY. */
void place_by_key(const i64 *codes, i64 size, i64 key, i32 *places, i64 mask) {
    for (i64 k = 0; k < size; k++) {
        uint64_t place = place_of(codes[k], key, mask);
        while (places[place] != EMPTY) place = (place + 1) & (uint64_t)mask;
        places[place] = (i32)k;
    }
}

/* Count the pairs of each item. */
void count_pairs(const i32 *items, i64 n_pairs, i32 *counts) {
    for (i64 k = 0; k < n_pairs; k++) counts[items[k]]++;
}

/* Put the people of these pairs into runs of their items, from the back: places comes with the ends of
 * what is free of each run, and leaves with them. */
void fill_runs(const i32 *items, const i32 *people, i64 n_pairs, i32 *places, i32 *runs) {
    for (i64 k = 0; k < n_pairs; k++) runs[--places[items[k]]] = people[k];
}

/* Put older runs, of the first items, into the new ones in the same way. */
void move_runs(const i32 *offsets, const i32 *people, i64 n_items, i32 *places, i32 *runs) {
    for (i64 item = 0; item < n_items; item++)
        for (i64 edge = offsets[item + 1]; edge-- > offsets[item];) runs[--places[item]] = people[edge];
}

enum { NOT_LARGEST = -1, NOTHING = -1, VISITED = -2 };

/* Put into reached all items that an alternating path from an uncovered item comes to, each once, and
 * return how many, or NOT_LARGEST if one comes to a person with room. first: per person, NOTHING; next:
 * per item; cover: per item, who covers it, or -1. */
i64 reach_from_uncovered(const i32 *offsets, const i32 *people, i64 n_items, const i32 *cover, i64 bound,
                         i32 *first, i32 *next, i32 *reached) {
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
            i32 held = first[people[edge]];
            i64 before = n_reached;
            if (held == VISITED) continue;
            first[people[edge]] = VISITED;
            for (; held != NOTHING; held = next[held]) reached[n_reached++] = held;
            if (n_reached - before < bound) return NOT_LARGEST;
        }
    }
    return n_reached;
}

/* Put into reached all people whom an alternating path from a person with room comes to, each once, and
 * return how many, or NOT_LARGEST if one comes to an uncovered item. load: per person, 0. */
i64 reach_from_room(const i32 *start, const i32 *stop, const i32 *items, i64 n_people, const i32 *cover,
                    i64 n_items, i64 bound, i32 *load, i32 *reached) {
    i64 n_reached = 0;
    for (i64 item = 0; item < n_items; item++)
        if (cover[item] >= 0) load[cover[item]]++;
    for (i64 person = 0; person < n_people; person++)
        if (load[person] < bound) {
            reached[n_reached++] = (i32)person;
            load[person] = VISITED;
        }
    for (i64 head = 0; head < n_reached; head++)
        for (i64 edge = start[reached[head]]; edge < stop[reached[head]]; edge++) {
            i32 holder = cover[items[edge]];
            if (holder < 0) return NOT_LARGEST;
            if (load[holder] == VISITED) continue;
            reached[n_reached++] = holder;
            load[holder] = VISITED;
        }
    return n_reached;
}

static inline uint64_t hash_of(i32 item, i32 person, i64 key) {
    uint64_t hash = ((uint64_t)item << 32 | (uint64_t)person) * 0x9E3779B97F4A7C15u + (uint64_t)key;
    return (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
}

/* Whether a pair is one of some `most` of its item, which has so many, by the front of its hash. */
static inline int is_chosen(uint64_t hash, i32 n_pairs, i64 most) {
    return (hash >> 32) * (uint64_t)n_pairs < (uint64_t)most << 32;
}

enum { SAMPLE = 12, BACK = 20 }; /* a pair is sampled if so many bits in the middle of its hash are 0 */

/* Count the pairs of each item, up to the largest number: a pair may come any number of times. Put the
 * pairs that choose_pairs may choose, and one of each person above the last one, to the front of two
 * arrays and all others to the back; equal pairs may come to either. Put one of 2^SAMPLE pairs into
 * sample, with its repetitions. Returns how many are in front. */
i64 sort_pairs(const i32 *items, const i32 *people, i64 n_pairs, i32 *counts, i64 most, i64 key, i64 last,
               i32 *sorted_items, i32 *sorted_people, i64 *sample, i64 *n_sampled) {
    i64 front = 0, back = n_pairs;
    for (i64 k = 0; k < n_pairs; k++) {
        uint64_t hash = hash_of(items[k], people[k], key);
        i32 n = counts[items[k]] += counts[items[k]] < INT32_MAX;
        int is_new = people[k] > last, first = is_new | is_chosen(hash, n, most);
        i64 place = first ? front : back - 1;
        last = is_new ? people[k] : last;
        sorted_items[place] = items[k];
        sorted_people[place] = people[k];
        front += first;
        back -= !first;
        if ((hash >> BACK & ((1 << SAMPLE) - 1)) == 0)
            sample[(*n_sampled)++] = (i64)items[k] << 32 | (i64)people[k];
    }
    return front;
}

/* The kernels below write the pairs that they choose into two arrays and return how many they are. */

/* Choose some `most` pairs of each item by a hash: all if it has no more. Equal pairs are chosen or left
 * together. */
i64 choose_pairs(const i32 *items, const i32 *people, i64 n_pairs, const i32 *counts, i64 most, i64 key,
                 uint8_t *item_has, uint8_t *person_has, i32 *chosen_items, i32 *chosen_people) {
    i64 n = 0;
    for (i64 k = 0; k < n_pairs; k++) {
        if (!is_chosen(hash_of(items[k], people[k], key), counts[items[k]], most)) continue;
        item_has[items[k]] = person_has[people[k]] = 1;
        chosen_items[n] = items[k];
        chosen_people[n++] = people[k];
    }
    return n;
}

/* Choose a pair of each item and of each person that has none. */
i64 choose_missing(const i32 *items, const i32 *people, i64 n_pairs, uint8_t *item_has, uint8_t *person_has,
                   i32 *chosen_items, i32 *chosen_people) {
    i64 n = 0;
    for (i64 k = 0; k < n_pairs; k++) {
        if (item_has[items[k]] & person_has[people[k]]) continue;
        item_has[items[k]] = person_has[people[k]] = 1;
        chosen_items[n] = items[k];
        chosen_people[n++] = people[k];
    }
    return n;
}

static inline int has_bit(const uint8_t *bits, i32 code) { return bits[code >> 3] >> (code & 7) & 1; }

/* Choose the pairs of some items and of some people, for whom a bit is set. */
i64 choose_listed(const i32 *items, const i32 *people, i64 n_pairs, const uint8_t *of_items,
                  const uint8_t *of_people, i32 *chosen_items, i32 *chosen_people) {
    i64 n = 0;
    for (i64 k = 0; k < n_pairs; k++) {
        chosen_items[n] = items[k];
        chosen_people[n] = people[k];
        n += has_bit(of_items, items[k]) | has_bit(of_people, people[k]);
    }
    return n;
}
