/* open_htp.c: the HTP with a bundle's context binaries, and what its profile says.
 *
 * Before Qualcomm's library sees a binary: its hash, its SoC, its builder's version and its spill-fill sizes
 * are compared with the manifest, and the manifest with the library that loads. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "qnn/htp.h"
#include "qnn/platform.h"
#include "soc/soc.h"

static sw_code check_binary(const sw_manifest *m, uint32_t shard, const sw_binary_info *info, sw_error *err) {
    SW_TRY(sw_manifest_check_binary(m, info->build_id, info->soc_model, info->htp_arch, err));
    for (uint32_t i = 0; i < info->n_graphs; i++)
        SW_TRY(
            sw_manifest_check_spill(m, shard, info->graphs[i].name, info->graphs[i].spill_fill_bytes, err));
    return SW_OK;
}

static sw_code read_binaries(sw_bundle *bundle, const sw_qnn_library *library, sw_htp_binary *binaries,
                             sw_error *err) {
    for (uint32_t i = 0; i < bundle->manifest.n_shards; i++) {
        const sw_file_map *map;
        sw_binary_info *info = sw_arena_alloc(&bundle->arena, sizeof *info);
        if (info == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        SW_TRY(sw_bundle_map_context(bundle, i, &map, err));
        SW_TRY(sw_binary_info_read(library, map->path, map->data, map->size, &bundle->arena, info, err));
        if (check_binary(&bundle->manifest, i, info, err) != SW_OK)
            return sw_error_prefix(err, "%s", map->path);
        binaries[i] = (sw_htp_binary){.file = map->path, .data = map->data, .size = map->size, .info = info};
    }
    return SW_OK;
}

/* Is this the SoC that the bundle is for, and the library no older than the one that compiled it? */
static sw_code check_target(const sw_manifest *m, const sw_qnn_library *library, sw_error *err) {
    sw_qnn_platform here = {0};
#if !defined(__x86_64__)
    SW_TRY(sw_qnn_platform_read(library, &here, err));
#endif
    return sw_manifest_check_target(m, here.soc_model, here.htp_arch, here.vtcm_mb, library->build_id, err);
}

/* What Qualcomm's library for PCs is known not to load, said before it fails. */
static sw_code check_host(const sw_manifest *m, sw_error *err) {
#if defined(__x86_64__)
    bool slc = false;
    for (uint32_t i = 0; i < m->n_graphs; i++) slc = slc || m->graphs[i].slc_allocator;
    if (m->weight_sharing || slc || m->spill_fill_buffer_bytes > 0)
        return SW_FAIL(
            err, SW_UNSUPPORTED,
            "--run_on htp: on a PC Qualcomm's library loads no context binary with %s: run it on a "
            "phone, or here with --run_on htp-emulator, which prepares the graphs again",
            m->weight_sharing ? "shared weights"
            : slc             ? "the SLC allocator"
                              : "a spill-fill buffer to share");
#else
    (void)m, (void)err;
#endif
    return SW_OK;
}

sw_code sw_cli_open_htp(const sw_options *options, sw_bundle *bundle, sw_device **out, sw_error *err) {
    const sw_manifest *m = &bundle->manifest;
    const sw_qnn_library *library;
    sw_htp_options htp = {.force_slc_off = options->force_slc != NULL, .profile = options->profile};
    sw_htp_perf_mode_from_name(options->perf, &htp.perf); /* one of the words: options.c has looked */
    SW_TRY(check_host(m, err));
    sw_soc *soc = sw_arena_alloc(&bundle->arena, sizeof *soc);
    if (soc == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *soc = sw_manifest_soc(m);
    SW_TRY(sw_cli_open_library(options, &library, err));
    SW_TRY(check_target(m, library, err));
    sw_htp_binary *binaries = sw_arena_array(&bundle->arena, m->n_shards, sizeof *binaries);
    if (binaries == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(read_binaries(bundle, library, binaries, err));
    return sw_htp_device_load(out, library, soc, binaries, m->n_shards, &htp, err);
}

/* ---- The profile ---- */

enum { COSTLIEST = 10 };

static int by_sum(const void *a, const void *b) {
    const sw_profile_event *x = *(const sw_profile_event *const *)a, *y = *(const sw_profile_event *const *)b;
    return (x->sum < y->sum) - (x->sum > y->sum);
}

/* Events with a name of their own are told as means of a run; ops only as the costliest ones. */
static void print_graph(void *context, uint32_t shard, const char *graph, const sw_profile *p) {
    const sw_bundle *bundle = context;
    const sw_profile_event **ops = malloc((p->n_events + 1u) * sizeof *ops);
    uint32_t n_ops = 0;
    uint64_t total = 0;
    double runs = (double)p->n_runs;
    char shard_text[32] = "";
    if (bundle->manifest.n_shards > 1) snprintf(shard_text, sizeof shard_text, "shard %u ", shard);
    fprintf(stderr, "profile of %s%s, means of %llu runs:\n", shard_text, graph,
            (unsigned long long)p->n_runs);
    for (uint32_t i = 0; i < p->n_events; i++) {
        const sw_profile_event *e = &p->events[i];
        const char *name = sw_profile_type_name(e->type);
        if (name != NULL)
            fprintf(stderr, "  %-34s %12.1f %s\n", name, (double)e->sum / runs,
                    sw_profile_unit_name(e->unit));
        else if (ops != NULL && e->parent != UINT32_MAX)
            ops[n_ops++] = e, total += e->sum;
    }
    if (n_ops > 0) {
        qsort(ops, n_ops, sizeof *ops, by_sum);
        fprintf(stderr, "  costliest of %u ops:\n", n_ops);
        for (uint32_t i = 0; i < n_ops && i < COSTLIEST; i++)
            fprintf(stderr, "    %-50s %12.1f %-6s %5.1f %%\n", ops[i]->name, (double)ops[i]->sum / runs,
                    sw_profile_unit_name(ops[i]->unit),
                    total > 0 ? 100 * (double)ops[i]->sum / (double)total : 0);
    }
    free(ops);
}

void sw_cli_print_profile(const sw_options *options, const sw_bundle *bundle, const sw_device *device) {
    if (!options->profile || strcmp(device->ops->name, "htp") != 0) return;
    fflush(stdout);
    sw_htp_device_profiles(device, print_graph, (void *)(uintptr_t)bundle);
}
