/* deploy.c: a bundle on a phone or board: what the command line says, in the words of deploy/deploy.h. */
#include "deploy/deploy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "soc/soc.h"

bool sw_cli_on_device(const sw_options *options) {
    return options->serial != NULL || options->host != NULL || strcmp(options->run_on, "adb") == 0 ||
           strcmp(options->run_on, "adb-cpu") == 0;
}

static sw_code print_reply(void *context, const char *data, size_t size, sw_error *err) {
    (void)context;
    if (fwrite(data, 1, size, stdout) == size && fflush(stdout) == 0) return SW_OK;
    return SW_FAIL(err, SW_IO, "stdout: can't write: %s", strerror(errno));
}

/* The options of `generate` that change the reply or the talk, as words. */
static sw_code runner_arguments(const sw_options *o, sw_arena *arena, const char *words[24], sw_error *err) {
    int n = 0;
    words[n++] = "--temperature", words[n++] = sw_arena_printf(arena, "%.9g", (double)o->temperature);
    words[n++] = "--top_p", words[n++] = sw_arena_printf(arena, "%.9g", (double)o->top_p);
    words[n++] = "--top_k", words[n++] = sw_arena_printf(arena, "%" PRIu64, o->top_k);
    words[n++] = "--seed", words[n++] = sw_arena_printf(arena, "%" PRIu64, o->seed);
    words[n++] = "--max_seq_len", words[n++] = sw_arena_printf(arena, "%u", o->max_seq_len);
    if (o->perf != NULL) words[n++] = "--perf", words[n++] = o->perf;
    if (o->force_slc != NULL) words[n++] = "--force_slc", words[n++] = o->force_slc;
    if (o->profile) words[n++] = "--profile";
    if (o->log_level != NULL || o->verbose)
        words[n++] = "--log_level", words[n++] = o->verbose ? "verbose" : o->log_level;
    if (o->raw) words[n++] = "--raw";
    for (int i = 0; i < n; i++)
        if (words[i] == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    words[n] = NULL;
    return SW_OK;
}

/* -b, or the cross build's folder where make leaves it. */
static const char *runner_folder(const sw_options *o) {
    static const char usual[] = "build/aarch64";
    return o->build_folder != NULL ? o->build_folder : sw_cli_is_folder(usual) ? usual : NULL;
}

/* bundle NULL: only checks. */
static sw_code deploy(const sw_options *o, sw_bundle *bundle, uint32_t htp_arch, sw_error *err) {
    if (o->run_on_given && strncmp(o->run_on, "adb", 3) != 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--run_on %s runs here, -s and -H run on a device: wanted one of them, or --run_on "
                       "adb%s",
                       o->run_on, strcmp(o->run_on, "cpu") == 0 ? "-cpu" : "");
    sw_arena arena = SW_ARENA_EMPTY;
    const char *words[24];
    const char *const *fetched = NULL;
    bool cpu = strcmp(o->run_on, "adb-cpu") == 0;
    sw_deploy_options d = {.adb = o->adb,
                           .host = o->host,
                           .serial = o->serial,
                           .runner_folder = runner_folder(o),
                           .device_dir = o->device_dir,
                           .sdk = getenv("QNN_SDK_ROOT"),
                           .run_on = cpu ? "cpu" : "htp",
                           .prompts = o->prompts,
                           .n_prompts = o->n_prompts,
                           .system_prompt = o->system_prompt,
                           .arguments = words,
                           .clean = o->clean_device,
                           .reply = print_reply};
    sw_code code = SW_OK;
    if (d.runner_folder == NULL)
        code =
            SW_FAIL(err, SW_INVALID_ARGUMENT,
                    "running on a device wants -b FOLDER, the folder of the runner for it (docs/phone.md)");
    if (code == SW_OK) code = sw_cli_external_folders("qnn-aarch64/onnxruntime_qnn", &arena, &fetched, err);
    if (code == SW_OK) code = runner_arguments(o, &arena, words, err);
    d.fetched = fetched;
    if (code == SW_OK)
        code = bundle != NULL ? sw_deploy_run(bundle, &d, err) : sw_deploy_check(&d, cpu ? 0 : htp_arch, err);
    sw_arena_free(&arena);
    return code;
}

sw_code sw_cli_deploy(const sw_options *options, sw_bundle *bundle, sw_error *err) {
    return deploy(options, bundle, 0, err);
}

sw_code sw_cli_check_device(const sw_options *options, sw_error *err) {
    const sw_soc *soc = options->soc != NULL ? sw_soc_find(options->soc) : NULL;
    return deploy(options, NULL, soc != NULL ? soc->htp_arch : 0, err);
}
