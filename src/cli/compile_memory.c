/* compile_memory.c: the sum over measured factors, against the limits of the process, of its control group
 * (Documentation/admin-guide/cgroup-v1 and cgroup-v2 of Linux) and what /proc/meminfo says. */
#include "cli/compile_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"

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
    sw_compile_memory m = {.own_bytes = SW_COMPILE_OWN_BYTES};
    if (rotates) m.own_bytes += SW_COMPILE_ROTATED_WEIGHT * weights;
    if (rounds_by_gptq(recipe)) m.own_bytes += SW_COMPILE_GPTQ_SQUARE * widest * widest;
    m.shard_bytes =
        SW_COMPILE_COMPILER_BYTES + (uint64_t)(SW_COMPILE_COMPILER_WEIGHT_BYTE * (double)bytes * share);
    m.needed_bytes = larger(m.own_bytes, SW_COMPILE_OWN_BYTES + m.shard_bytes);
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

/* The number in a file of the control group; UINT64_MAX where there is none ("max"). */
static uint64_t group_limit(const char *path) {
    char text[64] = "";
    FILE *f = fopen(path, "re");
    if (f == NULL) return UINT64_MAX;
    bool read = fgets(text, sizeof text, f) != NULL && text[0] >= '0' && text[0] <= '9';
    fclose(f);
    return read ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* The least of what this process may have, and whose limit that is. */
static uint64_t limit_of(const char **whose) {
    static const struct {
        int resource;
        const char *whose;
    } limits[] = {{RLIMIT_AS, "`ulimit -v`"}, {RLIMIT_DATA, "`ulimit -d`"}};
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit r;
        if (getrlimit(limits[i].resource, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= least)
            continue;
        least = r.rlim_cur, *whose = limits[i].whose;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (group_limit(files[i]) < least) least = group_limit(files[i]), *whose = "the control group";
    return least;
}

static double gb(uint64_t bytes) {
    return (double)bytes / 1e9;
}

sw_code sw_compile_memory_check(const sw_compile_memory *m, sw_error *err) {
    const char *whose = "";
    const uint64_t limit = limit_of(&whose);
    if (limit < m->needed_bytes)
        return SW_FAIL(err, SW_NO_MEMORY,
                       "this compile needs about %.2f GB of memory (%.2f GB for Qualcomm's compiler), and %s "
                       "allows %.2f GB",
                       gb(m->needed_bytes), gb(m->shard_bytes), whose, gb(limit));
    if (sw_memory_available() < m->needed_bytes)
        sw_log(
            SW_LOG_WARN,
            "this compile needs about %.2f GB of memory, and the machine has %.2f GB to spare: it may swap, "
            "or be ended",
            gb(m->needed_bytes), gb(sw_memory_available()));
    return SW_OK;
}

sw_code sw_compile_memory_explain(const sw_compile_memory *m, sw_code code, sw_error *err) {
    const char *whose = "";
    const uint64_t limit = limit_of(&whose);
    if (err == NULL || m->needed_bytes == 0 || strstr(err->message, "this compile needs") != NULL)
        return code;
    bool is_memory = code == SW_NO_MEMORY || strstr(err->message, "annot allocate memory") != NULL;
    bool may_be = code == SW_LIBRARY && limit / 2 < m->needed_bytes;
    if (!is_memory && !may_be) return code;
    char has[64] = "";
    if (limit != UINT64_MAX) snprintf(has, sizeof has, ", and %s allows %.2f GB", whose, gb(limit));
    sw_error_prefix(
        err,
        "this compile needs about %.2f GB of memory and up to twice as many addresses (%.2f GB of "
        "memory for Qualcomm's compiler)%s",
        gb(m->needed_bytes), gb(m->shard_bytes), has);
    return is_memory ? (err->code = SW_NO_MEMORY) : code;
}
