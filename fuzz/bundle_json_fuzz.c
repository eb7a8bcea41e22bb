/* bundle_json_fuzz.c: any text as graph.json and as manifest.json: what is read can be written, and reads the
 * same again. Seeds: the two files of any bundle. */
#include <stdlib.h>
#include <string.h>

#include "bundle/manifest.h"
#include "graph/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *write_graph(sw_decoder *d, const bool *per_channel, size_t *size) {
    static const float scale = 1;
    char *text = NULL;
    for (uint32_t i = 0; i < d->n_constants; i++) /* only whether it is there is written */
        d->constants[i]->channel_scales = per_channel[i] ? &scale : NULL;
    FILE *stream = open_memstream(&text, size);
    if (stream == NULL || sw_decoder_write_json(d, stream, NULL) != SW_OK) abort();
    fclose(stream);
    return text;
}

static void try_graph(const char *text, size_t size) {
    sw_decoder d, again;
    sw_error err = {0};
    bool *per_channel;
    if (sw_decoder_read_json(&d, "fuzz", text, size, &per_channel, &err) != SW_OK) {
        if (err.code == SW_OK || err.message[0] == '\0' || d.constants != NULL) abort();
        return;
    }
    sw_code ignored = sw_decoder_verify(&d, &err);
    (void)ignored;
    size_t first_size, second_size;
    char *first = write_graph(&d, per_channel, &first_size);
    if (sw_decoder_read_json(&again, "fuzz", first, first_size, &per_channel, &err) != SW_OK) abort();
    char *second = write_graph(&again, per_channel, &second_size);
    if (first_size != second_size || memcmp(first, second, first_size) != 0) abort();
    free(first);
    free(second);
    sw_decoder_free(&again);
    sw_decoder_free(&d);
}

static void try_manifest(const char *text, size_t size) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_manifest m;
    sw_error err = {0};
    char *out;
    size_t out_size;
    if (sw_manifest_read(&m, &arena, "fuzz", text, size, &err) == SW_OK) {
        if (sw_manifest_write(&m, &arena, &out, &out_size, &err) != SW_OK) abort();
    } else if (err.code == SW_OK || err.message[0] == '\0') {
        abort();
    }
    sw_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_graph((const char *)data, size);
    try_manifest((const char *)data, size);
    return 0;
}
