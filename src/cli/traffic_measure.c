/* traffic_measure.c: one point: a prepared model's integers, a graph of the point's shape over them, and
 * Qualcomm's compiler, once. The float model is only needed where nothing is prepared yet. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "bundle/bundle.h"
#include "cli/cli.h"
#include "cli/quantized_model.h"
#include "cli/traffic.h"
#include "graph/verify.h"
#include "qnn/binary_info.h"
#include "qnn/htp.h"
#include "quant/ranges_json.h"

enum { PREPARED_CONTEXT = 32, MOST_RANGES_BYTES = 64 << 20 };

static const char *prepared_folder(sw_traffic *t, uint32_t recipe) {
    return sw_arena_printf(&t->arena, "%s/prepared/%.16s", t->cache, t->recipes[recipe].digest);
}

/* A bundle of the decode graph for any SoC: only its constants and ranges count. */
static sw_code prepare(sw_traffic *t, uint32_t recipe, const char *folder, sw_error *err) {
    sw_options o = *t->options;
    uint32_t most = t->model.hparams.context_max;
    o.model = t->checkpoint, o.decoder_model = NULL, o.soc = t->points[0].soc->name;
    o.quant = t->recipes[recipe].name, o.model_mode = "kv", o.attention = "grouped", o.artifact = folder;
    o.max_seq_len = most < PREPARED_CONTEXT ? most : PREPARED_CONTEXT, o.max_context_len = 0;
    return sw_cli_prepare(&o, err);
}

static sw_code lock_file(const char *path, int *fd, sw_error *err) {
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) return SW_FAIL(err, SW_IO, "%s: can't open: %s", path, strerror(errno));
    while (flock(*fd, LOCK_EX) != 0)
        if (errno != EINTR) break; /* no locks here: the bundle's own rules keep its folder whole */
    return SW_OK;
}

/* The part "ranges-<8 hex>.json"; *out stays NULL where the recipe has none. */
static sw_code read_ranges(sw_bundle *bundle, sw_ranges **out, sw_error *err) {
    char *text;
    size_t size;
    const sw_part *part = sw_bundle_part(bundle, SW_PART_OTHER, 0);
    *out = NULL;
    if (part == NULL) return SW_OK;
    const char *path = sw_bundle_part_path(bundle, part);
    if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(sw_file_read(path, MOST_RANGES_BYTES, &bundle->arena, &text, &size, err));
    return sw_ranges_read_json(out, path, text, size, err);
}

/* What can't be read is said, and made again. */
static bool is_prepared(const char *folder) {
    sw_bundle bundle;
    sw_ranges *ranges = NULL;
    sw_error err;
    sw_code code = sw_bundle_open(&bundle, folder, &err);
    if (code == SW_OK) {
        code = read_ranges(&bundle, &ranges, &err);
        sw_ranges_free(ranges);
        sw_bundle_close(&bundle);
    }
    if (code != SW_OK) sw_log(SW_LOG_WARN, "%s: the model is prepared again", err.message);
    return code == SW_OK;
}

sw_code sw_traffic_prepare(sw_traffic *t, uint32_t recipe, sw_error *err) {
    const char *folder = prepared_folder(t, recipe);
    const char *manifest = folder != NULL ? sw_path_join(&t->arena, folder, SW_MANIFEST_NAME) : NULL;
    const char *lock = folder != NULL ? sw_arena_printf(&t->arena, "%s.lock", folder) : NULL;
    if (manifest == NULL || lock == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    int fd;
    SW_TRY(lock_file(lock, &fd, err));
    bool there = access(manifest, F_OK) == 0 && is_prepared(folder);
    sw_code code = there ? SW_OK : prepare(t, recipe, folder, err);
    close(fd);
    return code;
}

static sw_code compile(sw_traffic *t, sw_traffic_point *p, const sw_decoder *decoder, sw_error *err) {
    const sw_qnn_graph_options options = {
        .slc_allocator = p->slc, .vtcm_mb = p->vtcm_mb, .opt_level = p->opt_level};
    sw_htp_graph_report report;
    sw_binary_info info;
    uint8_t *binary;
    uint64_t size;
    SW_TRY(sw_htp_compile(t->library, p->soc, (const sw_graph *const *)decoder->graphs, &options, 1,
                          sw_traffic_shares_weights(t, p), &report, &binary, &size, err));
    sw_code code =
        sw_binary_info_read(t->library, "the new context binary", binary, size, &t->arena, &info, err);
    free(binary);
    if (code != SW_OK) return code;
    if (!report.ddr.known || info.n_graphs != 1 || !info.graphs[0].has_blob)
        return SW_FAIL(err, SW_LIBRARY, "%s: the compiler doesn't say what it moves", p->graph);
    p->figures = (sw_traffic_figures){.spill = report.ddr.spill,
                                      .fill = report.ddr.fill,
                                      .write = report.ddr.write,
                                      .read = report.ddr.read,
                                      .spill_fill_bytes = info.graphs[0].spill_fill_bytes,
                                      .vtcm_bytes = info.graphs[0].vtcm_bytes,
                                      .binary_bytes = size,
                                      .n_ops = decoder->graphs[0]->n_ops,
                                      .slc_idle = report.slc_idle,
                                      .finalize_seconds = report.finalize_seconds};
    p->known = true;
    return SW_OK;
}

sw_code sw_traffic_measure(sw_traffic *t, sw_traffic_point *p, sw_error *err) {
    sw_bundle bundle;
    sw_decoder decoder = {0};
    sw_ranges *ranges = NULL;
    SW_TRY(sw_traffic_prepare(t, p->recipe, err));
    SW_TRY(sw_bundle_open(&bundle, prepared_folder(t, p->recipe), err));
    sw_code code = read_ranges(&bundle, &ranges, err);
    if (code == SW_OK) code = sw_traffic_build(t, p, &decoder, err);
    if (code == SW_OK) code = sw_quantize_types(&decoder, &t->recipes[p->recipe].recipe, ranges, err);
    if (code == SW_OK) code = sw_borrow_constants(&decoder, &bundle.decoder, err);
    if (code == SW_OK) code = sw_decoder_verify(&decoder, err);
    if (code == SW_OK) code = compile(t, p, &decoder, err);
    if (code == SW_OK) code = sw_traffic_keep(t, p, err);
    sw_decoder_free(&decoder);
    sw_ranges_free(ranges);
    sw_bundle_close(&bundle);
    return code;
}
