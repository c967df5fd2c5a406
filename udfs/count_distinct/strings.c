/* The kernels of Strings in dense_numbers.py: no Python, no library, no memory of their own. dense_numbers.py has made room,
 * so that every number, place and byte is in its range. */
#include <stdint.h>
#include <string.h>

typedef int32_t i32;
typedef int64_t i64;
typedef uint64_t u64;

/* All fields have eight bytes; dense_numbers.py lists their names in the same order. */
typedef struct {
    i64 size;  /* how many numbers there are */
    i64 mask;  /* how many places there are, a power of 2, minus 1; some place is empty */
    i64 key;   /* a secret, so that no one can choose values that meet at one place */
    i64 *hash; /* per number: the hash of its string */
    i32 *place;              /* a number or EMPTY; each number is at its hash's place or soon after it */
    i64 *start;              /* where the string of each number starts in bytes, then where the last ends */
    unsigned char *bytes;    /* the strings, in a row */
} Table;

enum { EMPTY = -1, BLOCK = 64 };
i64 size_of_table(void) { return sizeof(Table); }

static inline u64 mixed(u64 x, u64 key) {
    x = (x ^ key) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * (key | 1);
    return x ^ x >> 29;
}

static inline u64 place_of(const Table *t, i64 hash) { return (u64)hash & (u64)t->mask; }

/* Fetch what the search for these hashes will read, all at once. */
static void fetch(const Table *t, const i64 *hashes, i64 n, u64 *places) {
    for (i64 k = 0; k < n; k++) __builtin_prefetch(&t->place[places[k] = place_of(t, hashes[k])]);
    for (i64 k = 0; k < n; k++)
        if (t->place[places[k]] != EMPTY) __builtin_prefetch(&t->hash[t->place[places[k]]]);
}

static inline i32 add(Table *t, u64 place, i64 hash) {
    t->hash[t->size] = hash;
    return t->place[place] = (i32)t->size++;
}

/* Give each number a place; all are empty. */
void place_strings(Table *t) {
    for (i64 number = 0; number < t->size; number++) {
        u64 place = place_of(t, t->hash[number]);
        while (t->place[place] != EMPTY) place = (place + 1) & (u64)t->mask;
        t->place[place] = (i32)number;
    }
}

static inline u64 eight(const unsigned char *bytes) {
    u64 word;
    memcpy(&word, bytes, 8);
    return word;
}

/* At most 8 bytes as a number: different ones for different bytes, if there are equally many. */
static inline u64 few(const unsigned char *bytes, i64 n) {
    uint32_t first, last;
    if (n == 8) return eight(bytes);
    if (n < 4) return n ? (u64)(bytes[0] | bytes[n >> 1] << 8 | bytes[n - 1] << 16) : 0;
    memcpy(&first, bytes, 4);
    memcpy(&last, bytes + n - 4, 4);
    return (u64)last << 32 | first;
}

/* The last 8 of n > 8 bytes are read whole, so that no byte is read alone. */
static inline i64 hash_of(const unsigned char *bytes, i64 n, u64 key) {
    u64 hash = mixed((u64)n, key);
    if (n <= 8) return (i64)mixed(hash ^ few(bytes, n), key);
    for (const unsigned char *at = bytes; at < bytes + n - 8; at += 8) hash = mixed(hash ^ eight(at), key);
    return (i64)mixed(hash ^ eight(bytes + n - 8), key);
}

static inline int differ(const unsigned char *some, const unsigned char *other, i64 n) {
    if (n <= 8) return few(some, n) != few(other, n);
    return n <= 16 ? eight(some) != eight(other) || eight(some + n - 8) != eight(other + n - 8)
                   : memcmp(some, other, (size_t)n) != 0;
}

/* Number strings; string k is bytes[offsets[k]:offsets[k + 1]]. Two of one hash are compared. */
void number_strings(Table *t, const unsigned char *bytes, const i64 *offsets, i64 n, i32 *numbers) {
    u64 places[BLOCK];
    i64 hashes[BLOCK];
    for (i64 first = 0; first < n; first += BLOCK) {
        i64 stop = n - first < BLOCK ? n - first : BLOCK;
        const i64 *ends = offsets + first + 1;
        for (i64 k = 0; k < stop; k++)
            hashes[k] = hash_of(bytes + ends[k - 1], ends[k] - ends[k - 1], (u64)t->key);
        fetch(t, hashes, stop, places);
        for (i64 k = 0; k < stop; k++) {
            u64 place = places[k];
            const unsigned char *string = bytes + ends[k - 1];
            i64 length = ends[k] - ends[k - 1];
            i32 number;
            while ((number = t->place[place]) != EMPTY &&
                   (t->hash[number] != hashes[k] || t->start[number + 1] - t->start[number] != length ||
                    differ(t->bytes + t->start[number], string, length)))
                place = (place + 1) & (u64)t->mask;
            if (number == EMPTY) {
                number = add(t, place, hashes[k]);
                memcpy(t->bytes + t->start[number], string, (size_t)length);
                t->start[number + 1] = t->start[number] + length;
            }
            numbers[first + k] = number;
        }
    }
}
