/* A baseline in C: clipped n-gram matches with one hash table per sentence, in one thread.
 *
 * N-grams are found with a rolling hash and compared token by token, so the counts are exact. The table is no larger
 * than it has to be. Only the n-grams of the hypothesis are inserted, never those of the references. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t position, order, count, clip, seen, reference;
} Slot;

static Slot *find(Slot *table, size_t mask, uint64_t hash, const int64_t *hypothesis, const int64_t *ngram, int order) {
    size_t i = (hash ^ hash >> 32) & mask;
    while (table[i].order && (table[i].order != order ||
                              memcmp(hypothesis + table[i].position, ngram, order * sizeof *ngram)))
        i = (i + 1) & mask;
    return table + i;
}

/* Shapes: hypotheses (sentences, width), references (sentences, count, width), matches (sentences, orders). */
void count_matches(const int64_t *hypotheses, const int64_t *hypothesis_lengths, const int64_t *references,
                   const int64_t *reference_lengths, int sentences, int count, int hypothesis_width,
                   int reference_width, int orders, int64_t *matches) {
    size_t size = 16;
    while (size < (size_t)2 * orders * hypothesis_width) size *= 2;
    Slot *all = malloc(size * sizeof *all);
    for (int s = 0; s < sentences; s++) {
        const int64_t *hypothesis = hypotheses + (size_t)s * hypothesis_width;
        int64_t *match = matches + (size_t)s * orders;
        int length = hypothesis_lengths[s];
        size_t used = 16;
        while (used < (size_t)2 * orders * length) used *= 2;
        memset(all, 0, used * sizeof *all);
        memset(match, 0, orders * sizeof *match);
        for (int i = 0; i < length; i++) {
            uint64_t hash = 0;
            for (int n = 1; n <= orders && i + n <= length; n++) {
                hash = (hash + hypothesis[i + n - 1] + n) * 0x9E3779B97F4A7C15u;
                Slot *slot = find(all, used - 1, hash, hypothesis, hypothesis + i, n);
                if (!slot->order) *slot = (Slot){i, n, 0, 0, 0, -1};
                slot->count++;
            }
        }
        for (int r = 0; r < count; r++) {
            const int64_t *reference = references + ((size_t)s * count + r) * reference_width;
            int reference_length = reference_lengths[(size_t)s * count + r];
            for (int i = 0; i < reference_length; i++) {
                uint64_t hash = 0;
                for (int n = 1; n <= orders && i + n <= reference_length; n++) {
                    hash = (hash + reference[i + n - 1] + n) * 0x9E3779B97F4A7C15u;
                    Slot *slot = find(all, used - 1, hash, hypothesis, reference + i, n);
                    if (!slot->order) break; /* longer n-grams cannot match either */
                    if (slot->reference != r) slot->reference = r, slot->seen = 0;
                    if (++slot->seen > slot->clip) slot->clip = slot->seen;
                }
            }
        }
        for (size_t i = 0; i < used; i++)
            if (all[i].order) match[all[i].order - 1] += all[i].count < all[i].clip ? all[i].count : all[i].clip;
    }
    free(all);
}
