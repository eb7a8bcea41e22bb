/* lower.c: a child process a shard: forked, so that it has graphs and weights without another load. It leaves
 * the context binary as a file of the bundle's folder, and figures or the error in memory that both share. */
#include "cli/lower.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/advise.h"
#include "cli/compile_memory.h"
#include "cli/context_cache.h"
#include "qnn/binary_info.h"
#include "qnn/htp.h"

enum { BUILD_ID_BYTES = 128, BELOW_BYTES = 8192, POLL_US = 20000 };

typedef struct sw_shard_process {
    pid_t pid;   /* 0: not running */
    bool cached; /* its binary and figures are there */
    sw_context_entry entry;
    /* The child's: */
    sw_code code;
    sw_error error;
    char below[BELOW_BYTES]; /* the library's lines on it */
    char build_id[BUILD_ID_BYTES];
    sw_manifest_graph graphs[SW_MAX_KINDS];
    char reasons[SW_MAX_KINDS][SW_SLC_REASON_BYTES];
} sw_shard_process;

static void drop_pages(void *writer) {
    sw_bundle_writer_drop_pages(writer);
}

static void part_name(char out[32], uint32_t shard) {
    snprintf(out, 32, "context_%u.bin", shard);
}

/* ---- In the child ---- */

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

/* A shard's graphs through Qualcomm's compiler into one context binary, which is then read back. *binary is
 * for free(). */
static sw_code compile_shard(sw_lowering *l, uint32_t first, uint8_t **binary, uint64_t *size,
                             sw_error *err) {
    sw_manifest *m = l->manifest;
    sw_qnn_graph_options options[SW_MAX_KINDS];
    sw_htp_graph_report reports[SW_MAX_KINDS];
    for (uint32_t i = 0; i < l->target->n_kinds; i++)
        options[i] = (sw_qnn_graph_options){.slc_allocator = m->graphs[first + i].slc_allocator,
                                            .vtcm_mb = m->vtcm_mb,
                                            .opt_level = m->opt_level};
    SW_TRY(sw_htp_compile(l->library, l->target->soc, (const sw_graph *const *)&l->decoder->graphs[first],
                          options, l->target->n_kinds, m->weight_sharing, drop_pages, l->writer, reports,
                          binary, size, err));
    sw_binary_info info;
    sw_code code =
        sw_binary_info_read(l->library, "the new context binary", *binary, *size, l->arena, &info, err);
    if (code == SW_OK) code = take_figures(l, first, reports, &info, err);
    if (code == SW_OK) {
        m->qnn_build_id = info.build_id;
        return SW_OK;
    }
    free(*binary);
    *binary = NULL;
    return code;
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
static sw_code lower_shard(sw_lowering *l, uint32_t shard, sw_error *err) {
    uint32_t first = shard * l->target->n_kinds;
    uint8_t *binary = NULL;
    uint64_t size = 0;
    bool again = false;
    char name[32];
    const char *path;
    part_name(name, shard);
    SW_TRY(sw_bundle_writer_path(l->writer, name, &path, err));
    SW_TRY(compile_shard(l, first, &binary, &size, err));
    sw_code code = advise(l, first, &again, err);
    if (code == SW_OK && again) {
        free(binary);
        binary = NULL;
        sw_log(SW_LOG_INFO, "the SLC advisor wants the allocator on: compiling again");
        code = compile_shard(l, first, &binary, &size, err);
    }
    if (code == SW_OK) code = sw_file_put(path, binary, (size_t)size, err); /* flushed with the bundle */
    free(binary);
    return code;
}

/* Ends with its parent: nobody else waits for it. */
static _Noreturn void run_child(sw_lowering *l, uint32_t shard, pid_t parent) {
    sw_shard_process *p = &l->processes[shard];
    sw_interrupt_forget();
    signal(SIGABRT, SIG_DFL); /* the parent tells of it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    sw_progress_forbid(); /* the parent draws */
    sw_log_keep_below_in(p->below, sizeof p->below);
    sw_code code = lower_shard(l, shard, &p->error);
    for (uint32_t i = 0; code == SW_OK && i < l->target->n_kinds; i++) {
        p->graphs[i] = l->manifest->graphs[shard * l->target->n_kinds + i];
        snprintf(p->reasons[i], sizeof p->reasons[i], "%s", p->graphs[i].slc_reason);
    }
    if (code == SW_OK) snprintf(p->build_id, sizeof p->build_id, "%s", l->manifest->qnn_build_id);
    p->code = code;
    if (code == SW_OK) sw_log_end(NULL);
    fflush(stderr);
    _exit(0); /* the library's threads and buffers end with it */
}

/* ---- In the parent ---- */

static sw_code look_up(sw_lowering *l, uint32_t shard, sw_error *err) {
    sw_shard_process *p = &l->processes[shard];
    sw_manifest *m = l->manifest;
    const char *weights = sw_bundle_writer_sha256(l->writer, SW_PART_WEIGHTS), *path;
    char name[32];
    part_name(name, shard);
    if (weights == NULL) return SW_FAIL(err, SW_INTERNAL, "the weights are not written yet");
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
    for (uint32_t i = 0; i < l->manifest->n_shards; i++) SW_TRY(look_up(l, i, err));
    return SW_OK;
}

/* A full disk of the cache's doesn't end a compile that is done. */
static void keep(sw_lowering *l, uint32_t shard, const char *path) {
    sw_shard_process *p = &l->processes[shard];
    sw_error err;
    const sw_manifest_graph *graphs = &l->manifest->graphs[shard * l->target->n_kinds];
    if (l->cache == NULL || p->cached) return;
    if (sw_context_entry_keep(&p->entry, path, graphs, l->target->n_kinds, &err) != SW_OK)
        sw_log(SW_LOG_WARN, "--cache: %s", err.message);
}

static uint32_t choose_at_once(const sw_lowering *l) {
    const uint32_t n = l->manifest->n_shards;
    const uint64_t fit = sw_memory_available() / l->compiler_bytes;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t at_once = cores > 1 && (uint64_t)cores < n ? (uint32_t)cores : cores > 1 ? n : 1;
    if (fit < at_once) at_once = fit > 0 ? (uint32_t)fit : 1;
    return at_once;
}

static sw_code start_shards(sw_lowering *l, sw_error *err) {
    const pid_t parent = getpid();
    while (l->n_started < l->manifest->n_shards && l->n_running < l->at_once) {
        if (l->processes[l->n_started].cached) {
            l->n_started++;
            continue;
        }
        fflush(NULL); /* what waits in buffers must not be written twice */
        pid_t child = fork();
        if (child < 0) return SW_FAIL(err, SW_IO, "can't start a process: %s", strerror(errno));
        if (child == 0) run_child(l, l->n_started, parent);
        l->processes[l->n_started++].pid = child;
        sw_memory_watch_add(l->watch, child);
        l->n_running++;
    }
    return SW_OK;
}

sw_code sw_lowering_start(sw_lowering *l, sw_error *err) {
    const size_t bytes = l->manifest->n_shards * sizeof *l->processes;
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return SW_FAIL(err, SW_NO_MEMORY, "no memory for figures of shards");
    l->processes = shared;
    l->at_once = choose_at_once(l);
    if (l->cache != NULL) SW_TRY(use_cache(l, err));
    sw_memory_trim(); /* a child has all that is not given back */
    drop_pages(l->writer);
    l->start_us = sw_now_us();
    if (l->n_cached < l->manifest->n_shards) l->watch = sw_memory_watch_start();
    return start_shards(l, err);
}

static sw_code take_shard(sw_lowering *l, uint32_t shard, int status, sw_error *err) {
    sw_shard_process *p = &l->processes[shard];
    sw_manifest *m = l->manifest;
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        /* The system's killer, or a C++ exception that nobody catches: std::bad_alloc. */
        const bool memory = number == SIGKILL || number == SIGABRT;
        return SW_FAIL(err, memory ? SW_NO_MEMORY : SW_LIBRARY,
                       "Qualcomm's compiler was ended by signal %d (%s)%s", number, strsignal(number),
                       memory ? ", most likely for want of memory" : "");
    }
    if (status != 0)
        return SW_FAIL(err, SW_LIBRARY, "Qualcomm's compiler ended its process with exit status %d",
                       WEXITSTATUS(status));
    if (p->code != SW_OK) return SW_FAIL(err, p->code, "%s", p->error.message);
    for (uint32_t i = 0; i < l->target->n_kinds; i++) {
        sw_manifest_graph *g = &m->graphs[shard * l->target->n_kinds + i];
        *g = p->graphs[i];
        l->finalize_seconds += g->finalize_seconds;
        g->slc_reason = sw_arena_strdup(l->arena, p->reasons[i]);
        if (g->slc_reason == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    }
    m->qnn_build_id = sw_arena_strdup(l->arena, p->build_id);
    return m->qnn_build_id != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
}

/* Takes what has ended; of several failures the first one counts. */
static sw_code poll_shards(sw_lowering *l, sw_error *err) {
    for (uint32_t i = 0; i < l->n_started; i++) {
        sw_shard_process *p = &l->processes[i];
        int status;
        if (p->pid == 0 || waitpid(p->pid, &status, WNOHANG) != p->pid) continue;
        sw_memory_watch_remove(l->watch, p->pid);
        p->pid = 0;
        l->n_running--;
        sw_code code = take_shard(l, i, status, err);
        if (code != SW_OK && p->below[0] != '\0') sw_log_below("%.*s", (int)strlen(p->below) - 1, p->below);
        if (code != SW_OK) return l->manifest->n_shards > 1 ? sw_error_prefix(err, "shard %u", i) : code;
    }
    return SW_OK;
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
        if (code == SW_OK && l->n_running > 0) usleep(POLL_US);
    }
    sw_progress_end(&progress);
    l->seconds = (double)(sw_now_us() - l->start_us) / 1e6;
    for (uint32_t i = 0; code == SW_OK && i < n; i++) { /* in the order of the layers */
        char name[32];
        const char *path;
        part_name(name, i);
        code = sw_bundle_writer_path(l->writer, name, &path, err);
        if (code != SW_OK) break;
        keep(l, i, path);
        code = sw_bundle_writer_adopt(l->writer, SW_PART_CONTEXT, name, err);
    }
    return code;
}

uint64_t sw_lowering_step_peak(sw_lowering *l) {
    return sw_memory_watch_take_peak(l->watch);
}

void sw_lowering_stop(sw_lowering *l) {
    sw_memory_watch_stop(l->watch);
    l->watch = NULL;
    if (l->processes == NULL) return;
    for (uint32_t i = 0; i < l->n_started; i++) {
        if (l->processes[i].pid == 0) continue;
        kill(l->processes[i].pid, SIGKILL);
        while (waitpid(l->processes[i].pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    munmap(l->processes, l->manifest->n_shards * sizeof *l->processes);
    l->processes = NULL;
}
