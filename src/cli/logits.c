/* logits.c: the logits behind given token ids, to a file: of the float model, or of a bundle's quantized
 * graphs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cpu/cpu.h"

/* "1,2,3" to ids. */
static sw_code parse_ids(const char *text, sw_ids *ids, sw_error *err) {
    const char *at = text;
    do {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || errno != 0 || value < 0 || value > INT32_MAX)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--ids: `%.40s` at character %zu, wanted whole numbers with commas", at,
                           (size_t)(at - text));
        int32_t id = (int32_t)value;
        SW_TRY(sw_ids_append(ids, &id, 1, err));
        at = *end == ',' ? end + 1 : end;
    } while (*at != '\0');
    return SW_OK;
}

static sw_code compute(const sw_decoder *decoder, sw_device *device, const sw_ids *ids, const char *path,
                       sw_error *err) {
    float *logits = malloc(decoder->hparams.vocab * sizeof *logits);
    sw_session *session = NULL;
    sw_code code = SW_OK;
    if (logits == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK) code = sw_session_create(&session, decoder, device, err);
    if (code == SW_OK) code = sw_session_feed(session, ids->data, ids->count, logits, "logits", err);
    if (code == SW_OK) code = sw_file_replace(path, logits, decoder->hparams.vocab * sizeof *logits, err);
    sw_session_destroy(session);
    free(logits);
    return code;
}

static sw_code logits_of_bundle(const sw_options *options, const sw_ids *ids, sw_pool *pool, sw_error *err) {
    sw_bundle bundle;
    sw_device *device = NULL;
    if (strncmp(options->run_on, "adb", 3) == 0)
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "logits: running on a phone isn't in this build: wanted --run_on cpu or htp-emulator");
    SW_TRY(sw_bundle_open(&bundle, options->model, err));
    sw_code code = sw_cli_open_device(options, &bundle, options->run_on, pool, &device, err);
    if (code == SW_OK) code = compute(&bundle.decoder, device, ids, options->out, err);
    if (device != NULL) device->ops->destroy(device);
    sw_bundle_close(&bundle);
    return code;
}

static sw_code logits_of_model(const sw_options *options, const sw_ids *ids, sw_pool *pool, sw_error *err) {
    sw_model model;
    sw_decoder decoder = {0};
    sw_device *device = NULL;
    if (strcmp(options->run_on, "cpu") != 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "logits: a checkpoint runs on the CPU device alone; give a bundle for %s",
                       options->run_on);
    SW_TRY(sw_model_open(&model, options->model, err));
    if (ids->count > model.hparams.context_max) {
        sw_code code = SW_FAIL(err, SW_INVALID_ARGUMENT, "--ids: %zu tokens, %s has %u positions", ids->count,
                               options->model, model.hparams.context_max);
        sw_model_close(&model);
        return code;
    }
    sw_graph_options graph = {.name = "all_at_once",
                              .ar_len = (uint32_t)ids->count,
                              .attention = SW_ATTENTION_GROUPED,
                              .head = SW_HEAD_LAST};
    sw_code code = sw_decoder_build(&decoder, &model, (uint32_t)ids->count, &graph, 1, err);
    if (code == SW_OK) code = sw_cpu_device_create(&device, pool, err);
    if (code == SW_OK) code = compute(&decoder, device, ids, options->out, err);
    if (device != NULL) device->ops->destroy(device);
    sw_decoder_free(&decoder);
    sw_model_close(&model);
    return code;
}

sw_code sw_cmd_logits(const sw_options *options, sw_error *err) {
    if (options->model == NULL || options->ids == NULL || options->out == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "logits: wants --model FILE|BUNDLE, --ids LIST and --out FILE");
    sw_ids ids = {0};
    sw_pool *pool = NULL;
    sw_code code = parse_ids(options->ids, &ids, err);
    if (code == SW_OK) code = sw_pool_create(&pool, options->threads, err);
    if (code == SW_OK)
        code = sw_cli_is_folder(options->model) ? logits_of_bundle(options, &ids, pool, err)
                                                : logits_of_model(options, &ids, pool, err);
    sw_pool_destroy(pool);
    sw_ids_free(&ids);
    return code;
}
