/* pte_builder.h: a small ExecuTorch program, made by hand after program.fbs: two methods, each with one
 * delegate, that share a segment with a wrapped context binary.
 *
 *   byte 0    root, "ET12", extended header
 *   byte 40   vtables, tables, vectors, texts
 *   base      the data: a wrapper of 256 bytes, a context binary of 100 */
#ifndef TESTS_BUNDLE_PTE_BUILDER_H
#define TESTS_BUNDLE_PTE_BUILDER_H

#include <stdint.h>
#include <string.h>

enum { PTE_BINARY = 100, PTE_BASE = 640, PTE_SIZE = PTE_BASE + 256 + PTE_BINARY };

typedef struct pte_file {
    uint8_t data[PTE_SIZE];
    uint32_t used;
    /* Where things are, for tests that break them. */
    uint32_t program, plans, delegates, delegate_id, location, index, segment, version;
} pte_file;

static inline void pte_put(pte_file *f, uint32_t at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) f->data[at + i] = (uint8_t)(value >> (8 * i));
}

/* Room of that size, aligned to 4. */
static inline uint32_t pte_room(pte_file *f, uint32_t bytes) {
    uint32_t at = f->used;
    f->used = (at + bytes + 3) & ~3u;
    return at;
}

/* A table with n fields of 8 bytes each behind its vtable; present: a bit a field. Returns the table. */
static inline uint32_t pte_table(pte_file *f, uint32_t n, uint32_t present) {
    uint32_t vtable = pte_room(f, 4 + 2 * n), table = pte_room(f, 4 + 8 * n);
    pte_put(f, vtable, 4 + 2 * n, 2), pte_put(f, vtable + 2, 4 + 8 * n, 2);
    for (uint32_t i = 0; i < n; i++) pte_put(f, vtable + 4 + 2 * i, present >> i & 1 ? 4 + 8 * i : 0, 2);
    pte_put(f, table, table - vtable, 4);
    return table;
}

static inline uint32_t pte_field(uint32_t table, uint32_t field) {
    return table + 4 + 8 * field;
}

static inline void pte_link(pte_file *f, uint32_t from, uint32_t to) {
    pte_put(f, from, to - from, 4);
}

static inline uint32_t pte_text(pte_file *f, const char *text) {
    uint32_t n = (uint32_t)strlen(text), at = pte_room(f, 5 + n);
    pte_put(f, at, n, 4);
    memcpy(f->data + at + 4, text, n);
    return at;
}

static inline uint32_t pte_vector(pte_file *f, uint32_t count) {
    uint32_t at = pte_room(f, 4 + 4 * count);
    pte_put(f, at, count, 4);
    return at;
}

static inline uint32_t pte_plan(pte_file *f, const char *name, const char *delegate, unsigned location) {
    uint32_t plan = pte_table(f, 8, 1u << 0 | 1u << 7), list = pte_vector(f, 1), d = pte_table(f, 2, 3);
    uint32_t reference = pte_table(f, 2, 3);
    f->delegates = list;
    pte_link(f, pte_field(plan, 0), pte_text(f, name));
    pte_link(f, pte_field(plan, 7), list);
    pte_link(f, list + 4, d);
    f->delegate_id = pte_text(f, delegate);
    pte_link(f, pte_field(d, 0), f->delegate_id);
    pte_link(f, pte_field(d, 1), reference);
    f->location = pte_field(reference, 0), f->index = pte_field(reference, 1);
    pte_put(f, f->location, location, 1);
    return plan;
}

/* The delegates' data: the segment, or with is_inline, in a file without an extended header, a vector of
 * bytes in the program, at the same place. */
static inline void pte_build_at(pte_file *f, int is_inline) {
    *f = (pte_file){.used = 40};
    memcpy(f->data + 4, "ET12eh00", 8);
    pte_put(f, 12, 32, 4), pte_put(f, 16, PTE_BASE, 8), pte_put(f, 24, PTE_BASE, 8);
    pte_put(f, 32, 256 + PTE_BINARY, 8);
    if (is_inline) memset(f->data + 8, 0, 32);
    f->program = pte_table(f, 5, 1u << 0 | 1u << 1 | (is_inline ? 1u << 3 : 1u << 4));
    pte_put(f, 0, f->program, 4);
    f->version = pte_field(f->program, 0);
    f->plans = pte_vector(f, 2);
    pte_link(f, pte_field(f->program, 1), f->plans);
    pte_link(f, f->plans + 4, pte_plan(f, "prefill", "QnnBackend", !is_inline));
    pte_link(f, f->plans + 8, pte_plan(f, "decode", "QnnBackend", !is_inline));
    uint32_t list = pte_vector(f, 1);
    f->segment = pte_table(f, is_inline ? 1 : 2, is_inline ? 1 : 3);
    pte_link(f, pte_field(f->program, is_inline ? 3 : 4), list);
    pte_link(f, list + 4, f->segment);
    if (is_inline) {
        pte_link(f, pte_field(f->segment, 0), PTE_BASE - 4);
        pte_put(f, PTE_BASE - 4, 256 + PTE_BINARY, 4);
    } else {
        pte_put(f, pte_field(f->segment, 1), 256 + PTE_BINARY, 8);
    }
    pte_put(f, PTE_BASE, 0x5678abcd, 4), pte_put(f, PTE_BASE + 12, PTE_BINARY, 8);
}

static inline void pte_build(pte_file *f) {
    pte_build_at(f, 0);
}

#endif
