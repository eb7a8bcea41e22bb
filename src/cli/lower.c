/* lower.c: a child process a shard: forked, so that it has graphs and weights without another load. It leaves
 * the context binary as a file of the bundle's folder, and figures or the error in memory that both share. */
#include "cli/lower.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file_room.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/advise.h"
#include "cli/compile_memory.h"
#include "cli/context_cache.h"
#include "qnn/binary_info.h"
#include "qnn/clock.h"
#include "qnn/htp.h"

enum { BUILD_ID_BYTES = 128, BELOW_BYTES = 8192, MOMENT_NS = 20000000 };

typedef struct sw_shard_process {
    pid_t pid;   /* 0: none, or waited for */
    bool cached; /* its binary and figures are there */
    bool taken;  /* what the child has left; the child itself may still be about to end */
    sw_context_entry entry;
    /* The child's: */
    atomic_bool done; /* the rest is there */
    double finalize_seconds, call_seconds;
    sw_code code;
    sw_error error;
    char below[BELOW_BYTES]; /* the library's lines on it */
    char build_id[BUILD_ID_BYTES];
    sw_manifest_graph graphs[SW_MAX_KINDS];
    char reasons[SW_MAX_KINDS][SW_SLC_REASON_BYTES];
} sw_shard_process;

struct sw_shards {
    sem_t done; /* of some child: wakes the parent */
    sw_shard_process of[];
};

static void drop_pages(void *writer) {
    sw_bundle_writer_drop_pages(writer);
}

static void part_name(char out[32], uint32_t shard) {
    snprintf(out, 32, "context_%u.bin", shard);
}

/* ---- In the child ---- */

/* What lives until its end: compiled graphs are left to that, which is quicker than the library. */
typedef struct child {
    sw_htp_compiled compiled;
    sw_htp_graph_report reports[SW_MAX_KINDS];
    sw_file_room room; /* of the context binary */
} child;

/* What the context binary says of each graph: what a load will need is that, not what was asked for. */
static sw_code take_figures(sw_lowering *l, uint32_t first, const sw_htp_graph_report *reports,
                            const sw_binary_info *info, sw_error *err) {
    for (uint32_t i = 0; i < l->target->n_kinds; i++) {
        sw_manifest_graph *g = &l->manifest->graphs[first + i];
        const sw_binary_graph *b = NULL;
        for (uint32_t k = 0; k < info->n_graphs; k++)
            if (strcmp(info->graphs[k].name, g->name) == 0) b = &info->graphs[k];
        if (b == NULL || !b->has_blob)
            return SW_FAIL(err, SW_LIBRARY, "the new context binary doesn't say what `%s` needs", g->name);
        g->spill_fill_bytes = b->spill_fill_bytes, g->vtcm_bytes = b->vtcm_bytes;
        g->ddr = (sw_ddr){.known = reports[i].ddr.known,
                          .spill = reports[i].ddr.spill,
                          .fill = reports[i].ddr.fill,
                          .read = reports[i].ddr.read,
                          .write = reports[i].ddr.write};
        g->finalize_seconds = reports[i].finalize_seconds;
    }
    return SW_OK;
}

/* The context as a binary, into the file `path`, and what it says of itself. */
static sw_code write_binary(sw_lowering *l, uint32_t first, const char *path, child *c, sw_error *err) {
    uint64_t capacity, size;
    sw_binary_info info;
    SW_TRY(sw_qnn_context_binary_size(&c->compiled.context, &capacity, err));
    SW_TRY(sw_file_room_open(&c->room, path, capacity, err));
    SW_TRY(sw_qnn_context_binary(&c->compiled.context, c->room.data, capacity, &size, err));
    SW_TRY(
        sw_binary_info_read(l->library, "the new context binary", c->room.data, size, l->arena, &info, err));
    SW_TRY(take_figures(l, first, c->reports, &info, err));
    l->manifest->qnn_build_id = info.build_id;
    return sw_file_room_finish(&c->room, size, err);
}

/* A shard's graphs through Qualcomm's compiler into the file `path`. */
static sw_code compile_shard(sw_lowering *l, uint32_t shard, const char *path, child *c, sw_error *err) {
    const uint32_t first = shard * l->target->n_kinds;
    sw_manifest *m = l->manifest;
    sw_qnn_graph_options options[SW_MAX_KINDS];
    for (uint32_t i = 0; i < l->target->n_kinds; i++)
        options[i] = (sw_qnn_graph_options){.slc_allocator = m->graphs[first + i].slc_allocator,
                                            .vtcm_mb = m->vtcm_mb,
                                            .opt_level = m->opt_level};
    SW_TRY(sw_htp_compile_graphs(
        &c->compiled, l->library, l->target->soc, (const sw_graph *const *)&l->decoder->graphs[first],
        options, l->target->n_kinds, m->weight_sharing, drop_pages, l->writer, c->reports, err));
    for (uint32_t i = 0; i < l->target->n_kinds; i++)
        l->shards->of[shard].finalize_seconds += c->reports[i].finalize_seconds;
    return write_binary(l, first, path, c, err);
}

/* What the advisor makes of the shard's figures. *on: some graph should have the allocator that hasn't yet.
 */
static sw_code advise(sw_lowering *l, uint32_t first, bool *on, sw_error *err) {
    sw_manifest *m = l->manifest;
    sw_slc_advice *advice = sw_arena_array(l->arena, m->n_graphs, sizeof *advice);
    if (advice == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(sw_advise(m, l->decoder, 0, advice, err));
    *on = false;
    for (uint32_t i = first; i < first + l->target->n_kinds; i++) {
        sw_manifest_graph *g = &m->graphs[i];
        g->slc_verdict = advice[i].verdict, g->slc_reason = advice[i].reason;
        if (!l->slc_auto || g->slc_verdict != SW_SLC_ON || g->slc_allocator) continue;
        g->slc_allocator = *on = true;
    }
    return SW_OK;
}

/* With --use_slc_allocator=auto a shard is compiled off first, and again where the advisor wants it on. */
static sw_code lower_shard(sw_lowering *l, uint32_t shard, child *c, sw_error *err) {
    bool again = false;
    char name[32];
    const char *path;
    part_name(name, shard);
    SW_TRY(sw_bundle_writer_path(l->writer, name, &path, err));
    SW_TRY(compile_shard(l, shard, path, c, err));
    SW_TRY(advise(l, shard * l->target->n_kinds, &again, err));
    if (!again) return SW_OK;
    sw_log(SW_LOG_INFO, "the SLC advisor wants the allocator on: compiling again");
    sw_file_room_close(&c->room);
    sw_htp_compiled_free(&c->compiled);
    return compile_shard(l, shard, path, c, err);
}

/* Ends with its parent: nobody else waits for it. */
static _Noreturn void run_child(sw_lowering *l, uint32_t shard, pid_t parent) {
    sw_shard_process *p = &l->shards->of[shard];
    child c = {0};
    sw_interrupt_forget();
    signal(SIGABRT, SIG_DFL); /* the parent tells of it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    sw_progress_forbid(); /* the parent draws */
    sw_log_keep_below_in(p->below, sizeof p->below);
    sw_code code = lower_shard(l, shard, &c, &p->error);
    for (uint32_t i = 0; code == SW_OK && i < l->target->n_kinds; i++) {
        p->graphs[i] = l->manifest->graphs[shard * l->target->n_kinds + i];
        snprintf(p->reasons[i], sizeof p->reasons[i], "%s", p->graphs[i].slc_reason);
    }
    if (code == SW_OK) snprintf(p->build_id, sizeof p->build_id, "%s", l->manifest->qnn_build_id);
    p->code = code;
    p->call_seconds = sw_qnn_call_seconds();
    if (code == SW_OK) sw_log_end(NULL);
    fflush(stderr);
    atomic_store(&p->done, true);
    sem_post(&l->shards->done);
    sw_file_room_close(&c.room);
    _exit(0); /* the library's threads and buffers end with it, which takes a while */
}

/* ---- In the parent ---- */

static sw_code look_up(sw_lowering *l, uint32_t shard, sw_error *err) {
    sw_shard_process *p = &l->shards->of[shard];
    sw_manifest *m = l->manifest;
    const char *weights = sw_bundle_writer_sha256(l->writer, SW_PART_WEIGHTS), *path;
    char name[32];
    part_name(name, shard);
    SW_TRY(sw_bundle_writer_path(l->writer, name, &path, err));
    SW_TRY(sw_context_entry_find(&p->entry, l->cache, l->decoder, m, shard, l->slc_auto, weights,
                                 l->library->build_id, err));
    SW_TRY(sw_context_entry_take(&p->entry, path, &m->graphs[shard * l->target->n_kinds], l->target->n_kinds,
                                 l->arena, &p->cached, err));
    if (p->cached) m->qnn_build_id = l->library->build_id;
    l->n_cached += p->cached;
    return SW_OK;
}

static sw_code use_cache(sw_lowering *l, sw_error *err) {
    l->cache = sw_path_join(l->arena, l->cache, "contexts");
    if (l->cache == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(sw_folder_make(l->cache, err));
    SW_TRY(sw_bundle_writer_hash_weights(l->writer, err));
    for (uint32_t i = 0; i < l->manifest->n_shards; i++) SW_TRY(look_up(l, i, err));
    return SW_OK;
}

/* A full disk of the cache's doesn't end a compile that is done. */
static void keep(sw_lowering *l, uint32_t shard, const sw_part *part) {
    sw_shard_process *p = &l->shards->of[shard];
    sw_error err;
    const char *path;
    const sw_manifest_graph *graphs = &l->manifest->graphs[shard * l->target->n_kinds];
    if (l->cache == NULL || p->cached) return;
    sw_code code = sw_bundle_writer_path(l->writer, part->path, &path, &err);
    if (code == SW_OK)
        code = sw_context_entry_keep(&p->entry, path, part->sha256, graphs, l->target->n_kinds, &err);
    if (code != SW_OK) sw_log(SW_LOG_WARN, "--cache: %s", err.message);
}

static uint32_t choose_at_once(const sw_lowering *l) {
    const uint32_t n = l->manifest->n_shards;
    const uint64_t fit = sw_memory_available() / l->compiler_bytes;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t at_once = cores > 1 && (uint64_t)cores < n ? (uint32_t)cores : cores > 1 ? n : 1;
    if (fit < at_once) at_once = fit > 0 ? (uint32_t)fit : 1;
    return at_once;
}

static void wait_for(sw_lowering *l, sw_shard_process *p) {
    sw_memory_watch_remove(l->watch, p->pid);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    p->pid = 0;
}

static sw_code start_shards(sw_lowering *l, sw_error *err) {
    const pid_t parent = getpid();
    while (l->n_started < l->manifest->n_shards && l->n_running < l->at_once) {
        if (l->shards->of[l->n_started].cached) {
            l->n_started++;
            continue;
        }
        for (uint32_t i = 0; i < l->n_started; i++) /* its memory is free only now */
            if (l->shards->of[i].taken && l->shards->of[i].pid != 0) wait_for(l, &l->shards->of[i]);
        fflush(NULL); /* what waits in buffers must not be written twice */
        pid_t process = fork();
        if (process < 0) return SW_FAIL(err, SW_IO, "can't start a process: %s", strerror(errno));
        if (process == 0) run_child(l, l->n_started, parent);
        l->shards->of[l->n_started++].pid = process;
        sw_memory_watch_add(l->watch, process);
        l->n_running++;
    }
    return SW_OK;
}

static size_t shared_bytes(const sw_lowering *l) {
    return sizeof *l->shards + l->manifest->n_shards * sizeof l->shards->of[0];
}

sw_code sw_lowering_start(sw_lowering *l, sw_error *err) {
    void *shared = mmap(NULL, shared_bytes(l), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return SW_FAIL(err, SW_NO_MEMORY, "no memory for figures of shards");
    l->shards = shared;
    sem_init(&l->shards->done, 1, 0);
    l->at_once = choose_at_once(l);
    if (l->cache != NULL) SW_TRY(use_cache(l, err));
    sw_memory_trim(); /* a child has all that is not given back */
    drop_pages(l->writer);
    l->start_us = sw_now_us();
    SW_TRY(start_shards(l, err));
    if (l->n_running > 0) l->watch = sw_memory_watch_start(); /* a thread: after what was forked */
    for (uint32_t i = 0; i < l->n_started; i++)
        if (l->shards->of[i].pid != 0) sw_memory_watch_add(l->watch, l->shards->of[i].pid);
    return SW_OK;
}

/* Of a child that didn't get to the end of its work. */
static sw_code tell_end(int status, sw_error *err) {
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        /* The system's killer, or a C++ exception that nobody catches: std::bad_alloc. */
        const bool memory = number == SIGKILL || number == SIGABRT;
        return SW_FAIL(err, memory ? SW_NO_MEMORY : SW_LIBRARY,
                       "Qualcomm's compiler was ended by signal %d (%s)%s", number, strsignal(number),
                       memory ? ", most likely for want of memory" : "");
    }
    return SW_FAIL(err, SW_LIBRARY, "Qualcomm's compiler ended its process with exit status %d",
                   WEXITSTATUS(status));
}

static sw_code take_shard(sw_lowering *l, uint32_t shard, sw_error *err) {
    sw_shard_process *p = &l->shards->of[shard];
    sw_manifest *m = l->manifest;
    if (p->code != SW_OK) return SW_FAIL(err, p->code, "%s", p->error.message);
    l->finalize_seconds += p->finalize_seconds;
    l->call_seconds += p->call_seconds;
    for (uint32_t i = 0; i < l->target->n_kinds; i++) {
        sw_manifest_graph *g = &m->graphs[shard * l->target->n_kinds + i];
        *g = p->graphs[i];
        g->slc_reason = sw_arena_strdup(l->arena, p->reasons[i]);
        if (g->slc_reason == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    m->qnn_build_id = sw_arena_strdup(l->arena, p->build_id);
    return m->qnn_build_id != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* Takes what is done or has ended; of several failures the first one counts. */
static sw_code poll_shards(sw_lowering *l, sw_error *err) {
    for (uint32_t i = 0; i < l->n_started; i++) {
        sw_shard_process *p = &l->shards->of[i];
        int status = 0;
        if (p->pid == 0 || p->taken) continue;
        const bool ended = waitpid(p->pid, &status, WNOHANG) == p->pid;
        const bool done = atomic_load(&p->done); /* in this order: one that has ended sets it no more */
        if (!ended && !done) continue;
        if (ended) {
            sw_memory_watch_remove(l->watch, p->pid);
            p->pid = 0;
        }
        p->taken = true;
        l->n_running--;
        sw_code code = done ? take_shard(l, i, err) : tell_end(status, err);
        if (code != SW_OK && p->below[0] != '\0') sw_log_below("%.*s", (int)strlen(p->below) - 1, p->below);
        if (code != SW_OK) return l->manifest->n_shards > 1 ? sw_error_prefix(err, "shard %u", i) : code;
    }
    return SW_OK;
}

/* Until a child is done, or for a moment: for the bar, and for a child that only ends. */
static void wait_a_moment(sw_lowering *l) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_NS;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    sem_timedwait(&l->shards->done, &until);
}

sw_code sw_lowering_finish(sw_lowering *l, sw_error *err) {
    const uint32_t n = l->manifest->n_shards;
    sw_progress progress;
    sw_progress_start(&progress, n > 1 ? "compile shards" : "compile", n > 1 ? n : 0);
    sw_code code = SW_OK;
    while (code == SW_OK && (l->n_running > 0 || l->n_started < n)) {
        code = start_shards(l, err);
        if (code == SW_OK) code = poll_shards(l, err);
        sw_progress_update(&progress, l->n_started - l->n_running);
        if (code == SW_OK && l->n_running > 0) wait_a_moment(l);
    }
    sw_progress_end(&progress);
    l->seconds = (double)(sw_now_us() - l->start_us) / 1e6;
    for (uint32_t i = 0; code == SW_OK && i < n; i++) { /* in the order of the layers */
        char name[32];
        const sw_part *part;
        part_name(name, i);
        code = sw_bundle_writer_adopt(l->writer, SW_PART_CONTEXT, name, &part, err);
        if (code == SW_OK) keep(l, i, part);
    }
    return code;
}

uint64_t sw_lowering_step_peak(sw_lowering *l) {
    return sw_memory_watch_take_peak(l->watch);
}

void sw_lowering_stop(sw_lowering *l) {
    if (l->shards != NULL) {
        for (uint32_t i = 0; i < l->n_started; i++) {
            if (l->shards->of[i].pid == 0) continue;
            if (!l->shards->of[i].taken) kill(l->shards->of[i].pid, SIGKILL);
            wait_for(l, &l->shards->of[i]);
        }
        munmap(l->shards, shared_bytes(l));
        l->shards = NULL;
    }
    sw_memory_watch_stop(l->watch);
    l->watch = NULL;
}
