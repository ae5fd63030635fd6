/* A lower bound for the benchmarks: the statistics of BLEU-4 in single-threaded C.
 *
 * One pass per order. Each position keeps the hash of the n-gram that begins there and extends it by one token per pass.
 * An open-addressing table holds the n-grams of the references; a generation number makes old entries invalid, so the
 * table is never cleared. Then each n-gram of the hypothesis looks itself up. A position without a match is done, because
 * longer n-grams cannot match there either.
 *
 * Equal 64-bit hashes count as equal n-grams. The benchmark compares all counts with those of the package. */
#include <stdint.h>
#include <stdlib.h>

enum { ORDERS = 4 };

typedef struct {
    uint64_t hash;
    uint32_t generation;
    int32_t reference, seen, clip; /* the count in the current reference, and the largest in any reference */
} Slot;

static Slot *find(Slot *table, size_t mask, uint64_t hash, uint32_t generation) {
    size_t i = (hash >> 32) & mask;
    while (table[i].generation == generation && table[i].hash != hash) i = (i + 1) & mask;
    return table + i;
}

static uint64_t extend(uint64_t hash, int64_t token) { return (hash ^ (uint64_t)token) * 0x9E3779B97F4A7C15u; }

static int length(const int64_t *row, int width, int64_t pad) {
    while (width > 0 && row[width - 1] == pad) width--;
    return width;
}

/* Add the matches, the possible matches, the hypothesis length, and the closest reference length of a batch to totals.
 *
 * Shapes: hypotheses (sentences, width), references (sentences, count, reference_width), totals (2 * ORDERS + 2). */
void add_batch(const int64_t *hypotheses, const int64_t *references, int sentences, int count, int width,
               int reference_width, int64_t pad, int64_t *totals) {
    size_t size = 64;
    while (size < 2 * (size_t)count * reference_width) size *= 2;
    Slot *table = calloc(size, sizeof *table);
    uint64_t *hashes = malloc((width + (size_t)count * reference_width) * sizeof *hashes);
    int *lengths = malloc(count * sizeof *lengths), *alive = malloc((width + 1) * sizeof *alive);
    uint32_t generation = 0;
    for (int s = 0; s < sentences; s++) {
        const int64_t *hypothesis = hypotheses + (size_t)s * width;
        const int64_t *group = references + (size_t)s * count * reference_width;
        uint64_t *group_hashes = hashes + width;
        int tokens = length(hypothesis, width, pad), closest = 0, all = 0;
        for (int r = 0; r < count; r++) {
            lengths[r] = length(group + (size_t)r * reference_width, reference_width, pad);
            int distance = abs(lengths[r] - tokens), best = abs(closest - tokens);
            if (!r || distance < best || (distance == best && lengths[r] < closest)) closest = lengths[r];
            all += lengths[r];
        }
        size_t mask = 64;
        while (mask < 2 * (size_t)all) mask *= 2;
        mask--;
        for (int i = 0; i < tokens; i++) hashes[i] = 0, alive[i] = i;
        for (size_t i = 0; i < (size_t)count * reference_width; i++) group_hashes[i] = 0;
        int left = tokens;
        for (int n = 1; n <= ORDERS; n++) {
            if (tokens >= n) totals[ORDERS + n - 1] += tokens - n + 1;
            if (!left) continue;
            generation++;
            for (int r = 0; r < count; r++) {
                const int64_t *reference = group + (size_t)r * reference_width;
                uint64_t *own = group_hashes + (size_t)r * reference_width;
                for (int i = 0; i + n <= lengths[r]; i++) {
                    own[i] = extend(own[i], reference[i + n - 1]);
                    Slot *slot = find(table, mask, own[i], generation);
                    if (slot->generation != generation) *slot = (Slot){own[i], generation, r, 0, 0};
                    if (slot->reference != r) slot->reference = r, slot->seen = 0;
                    if (++slot->seen > slot->clip) slot->clip = slot->seen;
                }
            }
            int kept = 0;
            for (int k = 0; k < left; k++) {
                int i = alive[k];
                if (i + n > tokens) continue;
                hashes[i] = extend(hashes[i], hypothesis[i + n - 1]);
                Slot *slot = find(table, mask, hashes[i], generation);
                if (slot->generation != generation) continue;
                alive[kept++] = i;
                if (slot->clip > 0) slot->clip--, totals[n - 1]++;
            }
            left = kept;
        }
        totals[2 * ORDERS] += tokens;
        totals[2 * ORDERS + 1] += closest;
    }
    free(table), free(hashes), free(lengths), free(alive);
}
