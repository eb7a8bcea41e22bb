/* open_device.c: the device that --run_on names. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cpu/cpu.h"
#include "qnn/htp.h"
#include "soc/soc.h"

/* The emulator's library lives as long as the process: it can't be unloaded, so one is enough. */
static sw_qnn_library library;

sw_code sw_cli_open_library(const sw_options *options, const sw_qnn_library **out, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    const char *const *folders;
    sw_code code = SW_OK;
    if (library.htp == NULL) {
        sw_qnn_report_abort();
        code = sw_cli_external_folders("qnn/onnxruntime_qnn", &arena, &folders, err);
        if (code == SW_OK) code = sw_qnn_library_open(&library, options->qnn_lib, folders, err);
    }
    *out = &library;
    sw_arena_free(&arena);
    return code;
}

sw_code sw_cli_open_device(const sw_options *options, sw_bundle *bundle, const char *name, sw_pool *pool,
                           sw_device **out, sw_error *err) {
    if (strcmp(name, "htp") == 0) return sw_cli_open_htp(options, bundle, out, err);
    if (strcmp(name, "htp-emulator") != 0) return sw_cpu_device_create(out, pool, err);
    const sw_manifest *manifest = &bundle->manifest;
    const sw_qnn_library *qnn;
    sw_soc *soc = sw_arena_alloc(&bundle->arena, sizeof *soc);
    if (soc == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *soc = sw_manifest_soc(manifest);
    SW_TRY(sw_cli_open_library(options, &qnn, err));
    sw_log(
        SW_LOG_INFO,
        "the emulator can't load a context binary with shared weights or the SLC allocator: it prepares the "
        "bundle's graphs again, each with weights of its own and the allocator off");
    sw_qnn_graph_options graph = {.vtcm_mb = manifest->vtcm_mb, .opt_level = manifest->opt_level};
    return sw_htp_device_create(out, qnn, soc, &graph, err);
}
