/* fixture.h: a folder, and compiles of the tiny decoder into it. */
#ifndef TESTS_BUNDLE_FIXTURE_H
#define TESTS_BUNDLE_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle/internal.h"
#include "tiny_decoder.h"

enum { MOST_CONTEXTS = 5 };
static tiny_decoder tiny;                    /* two layers, uncut */
static tiny_decoder cut[MOST_CONTEXTS + 1];  /* [n]: n layers in n shards, n > 1; made at need */
static char folder[] = "bundle_test_XXXXXX"; /* in the working folder */
static sw_error err;

static inline void join(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s/%s", folder, name);
}

static inline void empty_folder(const char *path) {
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        char inner[600];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%.300s/%s", path, e->d_name);
        struct stat st;
        if (lstat(inner, &st) == 0 && S_ISDIR(st.st_mode)) empty_folder(inner), rmdir(inner);
        unlink(inner);
    }
    if (dir != NULL) closedir(dir);
}

static inline unsigned count_files(void) {
    unsigned n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static inline void put_file(const char *name, const void *data, size_t size) {
    char path[600];
    join(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* noinline: gcc 12 takes the text for a pointer to `text` where it can see inside. */
static __attribute__((noinline, unused)) char *get_file(const char *name, size_t *size, sw_arena *arena) {
    char path[600], *text;
    join(path, sizeof path, name);
    assert_int_equal(sw_file_read(path, 1 << 24, arena, &text, size, &err), SW_OK);
    return text;
}

static inline sw_decoder *decoder_for(uint32_t n_contexts) {
    if (n_contexts <= 1) return &tiny.decoder;
    tiny_decoder *t = &cut[n_contexts];
    if (t->decoder.n_graphs == 0) tiny_decoder_create_shards(t, n_contexts, n_contexts);
    return &t->decoder;
}

static inline sw_manifest make_manifest(const char *recipe, uint32_t n_contexts) {
    sw_manifest m;
    bool contexts = n_contexts > 0;
    sw_manifest_init(&m, decoder_for(n_contexts));
    m.tool_version = "0.1.0", m.recipe = recipe, m.soc_name = "SM8750";
    m.soc_id = 69, m.htp_arch = 79, m.vtcm_mb = 8, m.opt_level = 3;
    m.mode = SW_MODE_HYBRID, m.prefill_ar_len = TINY_PREFILL, m.weight_sharing = true;
    m.qnn_build_id = contexts ? "v2.51.0.260929181845" : NULL;
    m.calibration = "{\"tokens\": 2048, \"sqnr_db\": 31.25}";
    m.tuning = "{\"tried\": []}";
    m.graphs[0].spill_fill_bytes = 4980736, m.graphs[0].vtcm_bytes = 8388608;
    m.graphs[0].slc_allocator = true, m.graphs[0].finalize_seconds = 12.5;
    m.graphs[0].slc_verdict = SW_SLC_MEASURE, m.graphs[0].slc_reason = "only a phone can tell";
    m.graphs[0].ddr = (sw_ddr){true, 6029312, 18612224, 28213248, 7077888};
    return m;
}

/* A whole compile; `mark` makes its context parts and manifest its own. */
static inline sw_code compile(const char *mark, uint32_t n_contexts) {
    sw_bundle_writer *w;
    SW_TRY(sw_bundle_writer_begin(&w, folder, &err));
    sw_decoder *d = decoder_for(n_contexts);
    sw_code code = sw_bundle_writer_begin_weights(w, d, &err);
    const void *data[64];
    const float *scales[64];
    assert_true(d->n_constants <= 64);
    for (uint32_t i = 0; i < d->n_constants; i++) {
        data[i] = d->constants[i]->data, scales[i] = d->constants[i]->channel_scales;
        if (code == SW_OK) code = sw_bundle_writer_put_constant(w, d->constants[i], data[i], &err);
    }
    if (code == SW_OK) code = sw_bundle_writer_end_weights(w, &err);
    if (code == SW_OK) code = sw_bundle_writer_hash_weights(w, &err);
    if (code == SW_OK) code = sw_bundle_writer_add(w, SW_PART_TOKENIZER, "tokenizer.json", "{}", 2, &err);
    for (uint32_t i = 0; code == SW_OK && i < n_contexts; i++) {
        char text[64];
        snprintf(text, sizeof text, "context %u of %s", i, mark);
        code = sw_bundle_writer_add(w, SW_PART_CONTEXT, "decoder context.bin", text, strlen(text), &err);
    }
    sw_manifest m = make_manifest(mark, n_contexts);
    if (code == SW_OK) code = sw_bundle_writer_commit(w, &m, &err);
    sw_bundle_writer_free(w);
    for (uint32_t i = 0; i < d->n_constants; i++) /* the writer's map is gone */
        d->constants[i]->data = data[i], d->constants[i]->channel_scales = scales[i];
    return code;
}

static inline void assert_opens(sw_bundle *b) {
    if (sw_bundle_open(b, folder, &err) != SW_OK) fail_msg("%s", err.message);
}

static inline void assert_refused(const char *message) {
    sw_bundle b;
    sw_code code = sw_bundle_open(&b, folder, &err);
    if (code == SW_OK || strstr(err.message, message) == NULL)
        fail_msg("wanted `%s`, is %d `%s`", message, code, code == SW_OK ? "" : err.message);
    assert_null(b.folder);
}

static inline int make_all(void **state) {
    (void)state;
    tiny_decoder_create(&tiny);
    return mkdtemp(folder) == NULL;
}

static inline int clean_folder(void **state) {
    (void)state;
    empty_folder(folder);
    return 0;
}

static inline int remove_all(void **state) {
    (void)state;
    tiny_decoder_free(&tiny);
    for (uint32_t i = 2; i <= MOST_CONTEXTS; i++)
        if (cut[i].decoder.n_graphs > 0) tiny_decoder_free(&cut[i]);
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean_folder)

#endif
