/* compile_memory.c: the sum over measured factors, against the limits of the process, of its control group
 * (Documentation/admin-guide/cgroup-v1 and cgroup-v2 of Linux) and what /proc/meminfo says. */
#include "cli/compile_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"

enum { TEXT_BYTES = 300 };

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static bool rounds_by_gptq(const sw_recipe *recipe) {
    bool any = recipe->rounding == SW_ROUND_GPTQ;
    for (uint32_t i = 0; i < recipe->n_weight_rules; i++)
        any = any || recipe->weight_rules[i].rounding == SW_ROUND_GPTQ;
    return any;
}

sw_compile_memory sw_compile_memory_of(const sw_decoder *decoder, const sw_memory_plan *plan,
                                       const sw_recipe *recipe, bool rotates) {
    uint64_t bytes = 0, weights = 0;
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        bytes += sw_tensor_bytes(decoder->constants[i]);
        weights += sw_tensor_elements(decoder->constants[i]);
    }
    bytes -= plan->embedding_bytes; /* the host's */
    const double share = plan->context_bytes > 0
                             ? (double)plan->largest_context_bytes / (double)plan->context_bytes
                             : 1; /* of the largest shard */
    const uint64_t widest = larger(decoder->hparams.ffn, decoder->hparams.hidden);
    sw_compile_memory m = {.own_bytes = SW_COMPILE_OWN_BYTES + SW_COMPILE_OWN_WEIGHT * weights};
    if (rounds_by_gptq(recipe)) m.own_bytes += SW_COMPILE_GPTQ_SQUARE * widest * widest;
    m.shard_bytes =
        SW_COMPILE_COMPILER_BYTES + (uint64_t)(SW_COMPILE_COMPILER_WEIGHT_BYTE * (double)bytes * share);
    m.needed_bytes = larger(m.own_bytes, SW_COMPILE_OWN_BYTES + m.shard_bytes);
    m.address_bytes = m.needed_bytes + (rotates ? SW_COMPILE_ROTATED_WEIGHT * weights : 0);
    return m;
}

uint64_t sw_memory_available(void) {
    uint64_t kilobytes = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        unsigned long long n;
        if (sscanf(line, "MemAvailable: %llu kB", &n) == 1) kilobytes = n;
    }
    if (f != NULL) fclose(f);
    return kilobytes > 0 ? kilobytes * 1024 : UINT64_MAX;
}

/* The number in a file of a control group; UINT64_MAX where it has none: "max", or 2^63 in version 1. */
static uint64_t group_file(const char *root, const char *group, const char *name) {
    char path[1200], text[64] = "";
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", root, group, name);
    FILE *f = fopen(path, "re");
    bool read = f != NULL && fgets(text, sizeof text, f) != NULL && text[0] >= '0' && text[0] <= '9';
    if (f != NULL) fclose(f);
    const uint64_t bytes = read ? strtoull(text, NULL, 10) : UINT64_MAX;
    return bytes < INT64_MAX / 2 ? bytes : UINT64_MAX;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Of this process's group, by both versions of the interface, and of a container's root. */
static uint64_t group_limit(void) {
    uint64_t least =
        smaller(group_file("", "", "memory.max"), group_file("/memory", "", "memory.limit_in_bytes"));
    char line[1024];
    FILE *f = fopen("/proc/self/cgroup", "re"); /* "0::/group", "4:memory:/group" */
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *first = strstr(line, ":memory:");
        if (strncmp(line, "0::", 3) == 0) least = smaller(least, group_file("", line + 3, "memory.max"));
        if (first != NULL) least = smaller(least, group_file("/memory", first + 8, "memory.limit_in_bytes"));
    }
    if (f != NULL) fclose(f);
    return least;
}

typedef struct limit {
    uint64_t bytes;    /* UINT64_MAX: none */
    const char *whose; /* of memory, or of addresses */
    bool of_addresses;
} limit;

/* The limit of this process that is the nearest to what is needed, or the farthest below. */
static limit nearest_limit(const sw_compile_memory *m) {
    limit all[] = {{UINT64_MAX, "`ulimit -v`", true},
                   {UINT64_MAX, "`ulimit -d`", false},
                   {group_limit(), "the control group", false}};
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY) all[0].bytes = r.rlim_cur;
    if (getrlimit(RLIMIT_DATA, &r) == 0 && r.rlim_cur != RLIM_INFINITY) all[1].bytes = r.rlim_cur;
    limit nearest = all[0];
    double least = INFINITY; /* of the limit to the need */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const uint64_t need = all[i].of_addresses ? m->address_bytes : m->needed_bytes;
        const double ratio = (double)all[i].bytes / (double)need;
        if (ratio < least) least = ratio, nearest = all[i];
    }
    return nearest;
}

static double gb(uint64_t bytes) {
    return (double)bytes / 1e9;
}

/* "this compile needs ... GB", and what the limit is. */
static void describe(const sw_compile_memory *m, const limit *l, char out[TEXT_BYTES]) {
    int n = snprintf(out, TEXT_BYTES,
                     "this compile needs about %.2f GB of memory (%.2f GB for Qualcomm's compiler)",
                     gb(m->needed_bytes), gb(m->shard_bytes));
    if (l->bytes != UINT64_MAX && l->of_addresses)
        n += snprintf(out + n, TEXT_BYTES - (size_t)n, " and %.2f GB of addresses", gb(m->address_bytes));
    if (l->bytes != UINT64_MAX)
        snprintf(out + n, TEXT_BYTES - (size_t)n, ", and %s allows %.2f GB", l->whose, gb(l->bytes));
}

sw_code sw_compile_memory_check(const sw_compile_memory *m, sw_error *err) {
    const limit l = nearest_limit(m);
    char text[TEXT_BYTES];
    if (l.bytes < (l.of_addresses ? m->address_bytes : m->needed_bytes)) {
        describe(m, &l, text);
        return SW_FAIL(err, SW_NO_MEMORY, "%s", text);
    }
    if (sw_memory_available() < m->needed_bytes)
        sw_log(
            SW_LOG_WARN,
            "this compile needs about %.2f GB of memory, and the machine has %.2f GB to spare: it may swap, "
            "or be ended",
            gb(m->needed_bytes), gb(sw_memory_available()));
    return SW_OK;
}

sw_code sw_compile_memory_explain(const sw_compile_memory *m, sw_code code, sw_error *err) {
    static const char begin[] = "this compile needs";
    if (err == NULL || m->needed_bytes == 0 || strncmp(err->message, begin, sizeof begin - 1) == 0)
        return code;
    const limit l = nearest_limit(m);
    char text[TEXT_BYTES];
    bool is_memory = code == SW_NO_MEMORY || strstr(err->message, "annot allocate memory") != NULL;
    bool may_be = code == SW_LIBRARY && l.bytes / 2 < (l.of_addresses ? m->address_bytes : m->needed_bytes);
    if (!is_memory && !may_be) return code;
    describe(m, &l, text);
    sw_error_prefix(err, "%s", text);
    return is_memory ? (err->code = SW_NO_MEMORY) : code;
}
