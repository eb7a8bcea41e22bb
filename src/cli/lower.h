/* lower.h: a bundle's shards through Qualcomm's compiler, while this process has other work.
 *
 * The compiler does one thing at a time in a process, on one core. So each shard is compiled in a process of
 * its own, as many at a time as there are cores and memory for. */
#ifndef SW_CLI_LOWER_H
#define SW_CLI_LOWER_H

#include "bundle/bundle.h"
#include "cli/target.h"
#include "qnn/load.h"

typedef struct sw_lowering {
    /* Borrowed until finish or stop; the decoder's constants are in the writer's map. */
    const sw_qnn_library *library;
    const sw_target *target;
    const sw_decoder *decoder;
    sw_manifest *manifest; /* filled by finish */
    sw_bundle_writer *writer;
    sw_arena *arena;
    const char *cache;       /* a folder (cli/context_cache.h); NULL: none */
    uint64_t compiler_bytes; /* of memory, that a shard takes at most (cli/compile_memory.h) */
    bool slc_auto;           /* compile with the SLC allocator off, and again where the advisor wants it on */

    struct sw_shards *shards; /* shared with the children */
    uint32_t n_started, n_running, at_once, n_cached;
    struct sw_memory_watch *watch; /* of this process and the children */
    uint64_t start_us;
    double seconds; /* after finish: from the start until the last one was done */
    /* After finish, of all of them, without what was cached: in graphFinalize, and in the library's other
     * calls. */
    double finalize_seconds, call_seconds;
} sw_lowering;

/* Takes what the cache has, and starts the first of the other shards. Call it from the only thread that is at
 * work. Free with stop in every case. Errors: SW_IO, SW_NO_MEMORY. */
sw_code sw_lowering_start(sw_lowering *l, sw_error *err) SW_MUST_CHECK;

/* Starts the rest, waits for all, adds the context binaries and what they say to bundle and manifest.
 * Errors: the compiler's (qnn/htp.h) with the shard; SW_LIBRARY where it ended its process. */
sw_code sw_lowering_finish(sw_lowering *l, sw_error *err) SW_MUST_CHECK;

/* The highest sum of what this process and those that compile had at the same time since the last call. 0
 * where none runs. */
uint64_t sw_lowering_step_peak(sw_lowering *l);

void sw_lowering_stop(sw_lowering *l); /* ends what runs; once or more; one that never started is allowed */

#endif
