/* pte.c: reads an ExecuTorch program as far as its delegates' data.
 *
 *   1. u32 offset of the root table, "ET12" (executorch/schema/program.fbs)
 *   2. optionally "eh00", u32 length 24 or 32, u64 bytes of the program, u64 offset of the segments, with
 *      length 32 also u64 bytes of the segments (executorch/schema/extended_header.h)
 *   3. the program, a FlatBuffer: a table begins with the i32 distance back to its vtable; a vtable is u16
 * its bytes, u16 the table's, then a u16 a field: its distance from the table, 0 where it is absent; what is
 *      not a number is reached by a u32 distance from the place that holds it; a vector is u32 count,
 * elements (flatbuffers.dev/internals)
 *   4. the segments; a delegate's data is one of them, or a vector in the program
 *   5. Qualcomm's backend wraps a context binary: u32 0x5678ABCD, u64 signature, u64 bytes, zeros up to byte
 *      256, the binary (executorch/backends/qualcomm, QnnCustomProtocol.h)
 *
 * Every distance, count and offset is compared with the bytes there are before it is followed. */
#include "bundle/pte.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { MAX_TEXT_BYTES = 256, WRAPPER_BYTES = 256, WRAPPER_MAGIC = 0x5678ABCD };
/* Entries of a small file may all lead to one place: so many are looked at, in all. */
enum { MAX_METHODS = 4096, MAX_DELEGATES = 16384 };

/* Places of the fields that are read, in the order of program.fbs. */
enum { PROGRAM_VERSION = 0, PROGRAM_PLANS = 1, PROGRAM_DELEGATE_DATA = 3, PROGRAM_SEGMENTS = 4 };
enum { PLAN_NAME = 0, PLAN_DELEGATES = 7 };
enum { DELEGATE_ID = 0, DELEGATE_PROCESSED = 1 };
enum { REFERENCE_LOCATION = 0, REFERENCE_INDEX = 1, LOCATION_INLINE = 0, LOCATION_SEGMENT = 1 };
enum { SEGMENT_OFFSET = 0, SEGMENT_SIZE = 1 };

typedef struct reader {
    const uint8_t *data;
    uint64_t file_bytes, size; /* of the file; of the program: no distance leads beyond */
    uint64_t base, segment_bytes;
    uint64_t root;
    sw_arena *arena;
    sw_pte *out;
    uint32_t binary_capacity, n_delegates;
    char others[160]; /* delegates that aren't Qualcomm's */
    sw_error *err;
} reader;

/* ---- FlatBuffer ---- */

static sw_code damaged(const reader *r, const char *what, uint64_t at) {
    return SW_FAIL(r->err, SW_BAD_DATA, "damaged: %s at byte %" PRIu64 " is beyond the end (%" PRIu64 ")",
                   what, at, r->size);
}

static sw_code read_number(const reader *r, uint64_t at, unsigned bytes, const char *what, uint64_t *out) {
    if (at > r->size || r->size - at < bytes) return damaged(r, what, at);
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) *out |= (uint64_t)r->data[at + i] << (8 * i);
    return SW_OK;
}

/* Where a u32 distance leads. */
static sw_code follow(const reader *r, uint64_t at, const char *what, uint64_t *out) {
    uint64_t distance;
    SW_TRY(read_number(r, at, 4, what, &distance));
    *out = at + distance;
    return *out < r->size ? SW_OK : damaged(r, what, *out);
}

/* A table's field; 0 where it is absent. */
static sw_code find_field(const reader *r, uint64_t table, unsigned field, const char *what, uint64_t *out) {
    uint64_t back, bytes, distance;
    SW_TRY(read_number(r, table, 4, what, &back));
    const int64_t vtable = (int64_t)table - (int32_t)(uint32_t)back;
    if (vtable < 0) return SW_FAIL(r->err, SW_BAD_DATA, "damaged: the vtable of %s is before the file", what);
    SW_TRY(read_number(r, (uint64_t)vtable, 2, what, &bytes));
    *out = 0;
    if (bytes < 4 + 2 * (field + 1)) return SW_OK; /* an older writer's */
    SW_TRY(read_number(r, (uint64_t)vtable + 4 + 2 * field, 2, what, &distance));
    if (distance > 0) *out = table + distance;
    return SW_OK;
}

/* A number of a table; 0 where it is absent, FlatBuffers' default. */
static sw_code read_field(const reader *r, uint64_t table, unsigned field, unsigned bytes, const char *what,
                          uint64_t *out) {
    uint64_t at;
    SW_TRY(find_field(r, table, field, what, &at));
    *out = 0;
    return at > 0 ? read_number(r, at, bytes, what, out) : SW_OK;
}

/* A vector of a table: its first element and their count, which is 0 where it is absent. */
static sw_code read_vector(const reader *r, uint64_t table, unsigned field, unsigned element_bytes,
                           const char *what, uint64_t *first, uint64_t *count) {
    uint64_t at;
    *first = *count = 0;
    SW_TRY(find_field(r, table, field, what, &at));
    if (at == 0) return SW_OK;
    SW_TRY(follow(r, at, what, &at));
    SW_TRY(read_number(r, at, 4, what, count));
    *first = at + 4;
    if (*count <= (r->size - *first) / element_bytes) return SW_OK;
    return SW_FAIL(r->err, SW_BAD_DATA,
                   "damaged: %s at byte %" PRIu64 " claim %" PRIu64 " entries of %u bytes, %" PRIu64
                   " bytes are there",
                   what, at, *count, element_bytes, r->size - *first);
}

static sw_code read_text(const reader *r, uint64_t table, unsigned field, const char *what,
                         const char **out) {
    uint64_t first, count;
    SW_TRY(read_vector(r, table, field, 1, what, &first, &count));
    if (count == 0 || count > MAX_TEXT_BYTES)
        return SW_FAIL(r->err, SW_BAD_DATA, "damaged: %s has %" PRIu64 " bytes, wanted 1 to %d", what, count,
                       MAX_TEXT_BYTES);
    *out = sw_arena_strndup(r->arena, (const char *)r->data + first, (size_t)count);
    return *out != NULL ? SW_OK : SW_FAIL(r->err, SW_NO_MEMORY, "out of memory");
}

/* ---- The program ---- */

static sw_code read_header(reader *r) {
    sw_cursor c = {.data = r->data, .size = r->file_bytes};
    uint32_t root = 0, length = 0;
    bool ok = sw_cursor_u32(&c, &root);
    const uint8_t *id = sw_cursor_take(&c, 4);
    if (!ok || id == NULL) return SW_FAIL(r->err, SW_BAD_DATA, "damaged: it ends inside its first 8 bytes");
    if (memcmp(id, "ET12", 4) != 0)
        return SW_FAIL(r->err, SW_UNSUPPORTED, "its version is `%.4s`, known is `ET12`", (const char *)id);
    r->size = r->file_bytes, r->root = root;
    if (root >= r->size) return damaged(r, "the root table", root);
    const uint8_t *extended = sw_cursor_take(&c, 4);
    if (extended == NULL || memcmp(extended, "eh", 2) != 0) return SW_OK;
    if (memcmp(extended, "eh00", 4) != 0)
        return SW_FAIL(r->err, SW_UNSUPPORTED, "its extended header is `%.4s`, known is `eh00`",
                       (const char *)extended);
    if (!sw_cursor_u32(&c, &length) || (length != 24 && length != 32))
        return SW_FAIL(r->err, SW_BAD_DATA, "damaged: the extended header's length is %u, wanted 24 or 32",
                       length);
    uint64_t program = 0, base = 0, segments = 0;
    if (!sw_cursor_u64(&c, &program) || !sw_cursor_u64(&c, &base) ||
        (length == 32 && !sw_cursor_u64(&c, &segments)))
        return SW_FAIL(r->err, SW_BAD_DATA, "damaged: it ends inside the extended header");
    if (program > r->file_bytes || base > r->file_bytes || segments > r->file_bytes - base)
        return SW_FAIL(r->err, SW_BAD_DATA,
                       "damaged: a program of %" PRIu64 " bytes and segments of %" PRIu64 " at byte %" PRIu64
                       ", in a file of %" PRIu64,
                       program, segments, base, r->file_bytes);
    r->size = program, r->base = base;
    r->segment_bytes = length == 32 ? segments : r->file_bytes - base;
    return root < r->size ? SW_OK : damaged(r, "the root table", root);
}

/* A delegate's data as bytes of the file. */
static sw_code find_payload(const reader *r, uint64_t delegate, uint64_t *offset, uint64_t *bytes) {
    uint64_t reference, location, index, first, count, at;
    SW_TRY(find_field(r, delegate, DELEGATE_PROCESSED, "a delegate", &reference));
    if (reference == 0) return SW_FAIL(r->err, SW_BAD_DATA, "damaged: a delegate has no data");
    SW_TRY(follow(r, reference, "a delegate's data", &reference));
    SW_TRY(read_field(r, reference, REFERENCE_LOCATION, 1, "a delegate's data", &location));
    SW_TRY(read_field(r, reference, REFERENCE_INDEX, 4, "a delegate's data", &index));
    if (location != LOCATION_INLINE && location != LOCATION_SEGMENT)
        return SW_FAIL(r->err, SW_UNSUPPORTED,
                       "a delegate's data has the location %" PRIu64 ", known are 0 and 1", location);
    const bool is_inline = location == LOCATION_INLINE;
    const char *what = is_inline ? "the delegates' data" : "the segments";
    SW_TRY(read_vector(r, r->root, is_inline ? PROGRAM_DELEGATE_DATA : PROGRAM_SEGMENTS, 4, what, &first,
                       &count));
    if (index >= count)
        return SW_FAIL(r->err, SW_BAD_DATA,
                       "damaged: a delegate's data is entry %" PRIu64 " of %s, which have %" PRIu64, index,
                       what, count);
    SW_TRY(follow(r, first + 4 * index, what, &at));
    if (is_inline) return read_vector(r, at, 0, 1, what, offset, bytes);
    SW_TRY(read_field(r, at, SEGMENT_OFFSET, 8, what, offset));
    SW_TRY(read_field(r, at, SEGMENT_SIZE, 8, what, bytes));
    if (*offset > r->segment_bytes || *bytes > r->segment_bytes - *offset)
        return SW_FAIL(r->err, SW_BAD_DATA,
                       "damaged: segment %" PRIu64 " has %" PRIu64 " bytes at byte %" PRIu64
                       " of segments of %" PRIu64,
                       index, *bytes, *offset, r->segment_bytes);
    *offset += r->base;
    return SW_OK;
}

/* The context binary inside the wrapper. */
static sw_code unwrap(const reader *r, uint64_t offset, uint64_t bytes, sw_pte_binary *out) {
    sw_cursor c = {.data = r->data, .size = offset + bytes, .pos = offset};
    uint32_t magic;
    uint64_t signature;
    if (bytes <= WRAPPER_BYTES || !sw_cursor_u32(&c, &magic))
        return SW_FAIL(r->err, SW_BAD_DATA,
                       "damaged: the QNN delegate's data at byte %" PRIu64 " has %" PRIu64
                       " bytes, wanted a wrapper of 256 and a context binary",
                       offset, bytes);
    if (magic != WRAPPER_MAGIC)
        return SW_FAIL(r->err, SW_UNSUPPORTED,
                       "the QNN delegate's data at byte %" PRIu64
                       " begins with 0x%08x, known is a context binary's wrapper, 0x5678abcd",
                       offset, magic);
    if (!sw_cursor_u64(&c, &signature) || !sw_cursor_u64(&c, &out->bytes)) out->bytes = 0;
    out->offset = offset + WRAPPER_BYTES;
    if (out->bytes > 0 && out->bytes <= bytes - WRAPPER_BYTES) return SW_OK;
    return SW_FAIL(r->err, SW_BAD_DATA,
                   "damaged: the context binary's wrapper at byte %" PRIu64 " claims %" PRIu64
                   " bytes, %" PRIu64 " are there",
                   offset, out->bytes, bytes - WRAPPER_BYTES);
}

/* Methods of one program share a binary: then it stands once, with all their names. */
static sw_code add_binary(reader *r, sw_pte_binary binary, const char *method) {
    sw_pte *out = r->out;
    sw_pte_binary *same = NULL;
    for (uint32_t i = 0; i < out->n_binaries; i++)
        if (out->binaries[i].offset == binary.offset) same = &out->binaries[i];
    if (same == NULL) {
        if (out->n_binaries == r->binary_capacity) {
            uint32_t wanted = r->binary_capacity > 0 ? 2 * r->binary_capacity : 4;
            sw_pte_binary *larger = sw_arena_array(r->arena, wanted, sizeof *larger);
            if (larger == NULL) return SW_FAIL(r->err, SW_NO_MEMORY, "out of memory");
            if (out->n_binaries > 0) memcpy(larger, out->binaries, out->n_binaries * sizeof *larger);
            out->binaries = larger, r->binary_capacity = wanted;
        }
        same = &out->binaries[out->n_binaries++];
        *same = binary;
        same->methods = method;
        return SW_OK;
    }
    if (strlen(same->methods) + strlen(method) > 8 * MAX_TEXT_BYTES) return SW_OK; /* enough of them */
    same->methods = sw_arena_printf(r->arena, "%s, %s", same->methods, method);
    return same->methods != NULL ? SW_OK : SW_FAIL(r->err, SW_NO_MEMORY, "out of memory");
}

static sw_code read_delegate(reader *r, uint64_t delegate, const char *method) {
    const char *id;
    uint64_t offset, bytes;
    sw_pte_binary binary = {0};
    SW_TRY(read_text(r, delegate, DELEGATE_ID, "a delegate's name", &id));
    if (strcmp(id, "QnnBackend") != 0) {
        size_t used = strlen(r->others);
        if (strstr(r->others, id) == NULL)
            snprintf(r->others + used, sizeof r->others - used, "%s%s", used > 0 ? ", " : "", id);
        return SW_OK;
    }
    SW_TRY(find_payload(r, delegate, &offset, &bytes));
    SW_TRY(unwrap(r, offset, bytes, &binary));
    return add_binary(r, binary, method);
}

static sw_code read_plans(reader *r) {
    uint64_t plans, n_plans, version;
    SW_TRY(read_field(r, r->root, PROGRAM_VERSION, 4, "the program", &version));
    if (version != 0)
        return SW_FAIL(r->err, SW_UNSUPPORTED, "its schema has the version %" PRIu64 ", known is 0", version);
    SW_TRY(read_vector(r, r->root, PROGRAM_PLANS, 4, "the methods", &plans, &n_plans));
    if (n_plans > MAX_METHODS)
        return SW_FAIL(r->err, SW_BAD_DATA, "damaged: it has %" PRIu64 " methods, wanted at most %d", n_plans,
                       MAX_METHODS);
    r->out->methods = sw_arena_array(r->arena, (size_t)n_plans, sizeof *r->out->methods);
    if (r->out->methods == NULL) return SW_FAIL(r->err, SW_NO_MEMORY, "out of memory");
    for (uint64_t i = 0; i < n_plans; i++) {
        uint64_t plan, delegates, n_delegates, delegate;
        const char **name = &r->out->methods[r->out->n_methods++];
        SW_TRY(follow(r, plans + 4 * i, "a method", &plan));
        SW_TRY(read_text(r, plan, PLAN_NAME, "a method's name", name));
        SW_TRY(read_vector(r, plan, PLAN_DELEGATES, 4, "a method's delegates", &delegates, &n_delegates));
        for (uint64_t k = 0; k < n_delegates; k++) {
            if (++r->n_delegates > MAX_DELEGATES)
                return SW_FAIL(r->err, SW_BAD_DATA, "damaged: its methods have more than %d delegates",
                               MAX_DELEGATES);
            SW_TRY(follow(r, delegates + 4 * k, "a delegate", &delegate));
            SW_TRY(read_delegate(r, delegate, *name));
        }
    }
    return SW_OK;
}

bool sw_pte_is(const uint8_t *data, uint64_t size) {
    return size >= 8 && memcmp(data + 4, "ET", 2) == 0 && data[6] >= '0' && data[6] <= '9';
}

sw_code sw_pte_read(const uint8_t *data, uint64_t size, sw_arena *arena, sw_pte *out, sw_error *err) {
    *out = (sw_pte){0};
    reader r = {.data = data, .file_bytes = size, .arena = arena, .out = out, .err = err};
    SW_TRY(read_header(&r));
    SW_TRY(read_plans(&r));
    out->program_bytes = r.size, out->segment_bytes = r.segment_bytes;
    if (out->n_binaries > 0) return SW_OK;
    return SW_FAIL(err, SW_NOT_FOUND, "it holds no QNN context binary; its delegates: %s",
                   r.others[0] != '\0' ? r.others : "none");
}
