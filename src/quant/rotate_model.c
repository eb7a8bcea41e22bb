/* rotate_model.c: folds rotations into the weights (QuaRot: Ashkboos et al., arXiv 2404.00456; the norms'
 * gammas out of the way first, as in SliceGPT, arXiv 2401.15024).
 *
 * With R orthogonal, r the residual stream and r' = r R: RmsNorm without gamma gives norm(r') = norm(r) R. So
 *   what writes r:  W' = R^T W             embedding (by its rows: E' = E R), o_proj, down_proj
 *   what reads r:   W' = W diag(gamma) R   q, k, v, gate, up, head
 * give the same q, k, v, gate, up and logits. Attention only adds up values of a head, so with H orthogonal
 * [head_dim, head_dim] each head's rows of v_proj may become H^T W and its columns of o_proj W H. Nothing is
 * left to do when the model runs. */
#include "quant/rotate_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "quant/rotate.h"

enum {
    ROWS_A_TASK = 16,
    COLUMNS_A_TASK = 32,
    ALIGNMENT = 4096, /* whole pages: each is written once, at once */
    PART_BYTES = 8 << 20,
    NO_GAMMA = SW_WEIGHT_COUNT
};

typedef enum which { NONE, RESIDUAL, HEAD, N_ROTATIONS } which;

/* What becomes of a weight: the gamma that it takes in, then the rotation of its rows' and of its columns'
 * pieces. Norms, of which none is listed, become 1. */
static const struct {
    int gamma;
    which rows, columns;
} folds[SW_WEIGHT_COUNT] = {
    [SW_W_EMBEDDING] = {NO_GAMMA, RESIDUAL, NONE},
    [SW_W_Q] = {SW_W_ATTENTION_NORM, RESIDUAL, NONE},
    [SW_W_K] = {SW_W_ATTENTION_NORM, RESIDUAL, NONE},
    [SW_W_V] = {SW_W_ATTENTION_NORM, RESIDUAL, HEAD},
    [SW_W_O] = {NO_GAMMA, HEAD, RESIDUAL},
    [SW_W_GATE] = {SW_W_FFN_NORM, RESIDUAL, NONE},
    [SW_W_UP] = {SW_W_FFN_NORM, RESIDUAL, NONE},
    [SW_W_DOWN] = {NO_GAMMA, NONE, RESIDUAL},
    [SW_W_HEAD] = {SW_W_FINAL_NORM, RESIDUAL, NONE},
};

static bool is_norm(unsigned id) {
    return folds[id].rows == NONE && folds[id].columns == NONE;
}

typedef struct job {
    const sw_weight *in;
    size_t first_row;
    float *out;         /* [rows from the first on, in->cols] */
    const float *gamma; /* [in->cols] or NULL */
    const sw_rotation *rows, *columns;
    const struct target *target; /* not NULL: rows are written as they come */
    atomic_bool no_memory;
    atomic_int write_error; /* errno of the first failure */
} job;

/* Where the weights go: a part at a time through a buffer, so that no page of the file is filled twice, first
 * with zeros by the system. */
typedef struct target {
    int fd;
    uint64_t at; /* of the weight in hand */
    float *buffer;
    size_t buffer_bytes;
} target;

/* 0, or errno. */
static int write_at(const target *t, const float *data, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(t->fd, (const char *)data + done, bytes - done, (off_t)(t->at + offset + done));
        if (n < 0 && errno != EINTR) return errno;
        if (n > 0) done += (size_t)n;
    }
    return 0;
}

static void fold_rows(void *context, size_t begin, size_t end) {
    job *j = context;
    size_t cols = j->in->cols, piece = j->rows != NULL ? j->rows->size : cols;
    float *scratch = malloc(piece * sizeof *scratch);
    if (scratch == NULL) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (size_t r = begin; r < end; r++) {
        float *row = j->out + r * cols;
        sw_weight_row(j->in, (uint32_t)(j->first_row + r), row);
        for (size_t i = 0; i < cols && j->gamma != NULL; i++) row[i] *= j->gamma[i];
        for (size_t i = 0; i < cols && j->rows != NULL; i += piece)
            sw_rotation_apply(j->rows, row + i, 1, scratch);
    }
    free(scratch);
    const size_t row_bytes = cols * sizeof(float);
    if (j->target == NULL) return;
    int failed = write_at(j->target, j->out + begin * cols, (end - begin) * row_bytes,
                          (j->first_row + begin) * row_bytes);
    if (failed != 0) atomic_store(&j->write_error, failed);
}

/* Strips of columns, piece by piece: a strip stays in the cache. */
static void fold_columns(void *context, size_t begin, size_t end) {
    job *j = context;
    size_t cols = j->in->cols, piece = j->columns->size;
    float *strip = malloc(2 * piece * COLUMNS_A_TASK * sizeof *strip);
    if (strip == NULL) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (size_t c = begin; c < end; c += COLUMNS_A_TASK) {
        size_t width = end - c < COLUMNS_A_TASK ? end - c : COLUMNS_A_TASK;
        for (size_t r = 0; r < j->in->rows; r += piece) {
            float *at = j->out + r * cols + c;
            for (size_t i = 0; i < piece; i++)
                memcpy(strip + i * width, at + i * cols, width * sizeof *strip);
            sw_rotation_apply(j->columns, strip, width, strip + piece * width);
            for (size_t i = 0; i < piece; i++)
                memcpy(at + i * cols, strip + i * width, width * sizeof *strip);
        }
    }
    free(strip);
}

static sw_code write_failed(int number, sw_error *err) {
    return SW_FAIL(err, SW_IO, "can't write rotated weights to scratch space: %s", strerror(number));
}

/* Columns are rotated over all rows, so then the part is the weight. */
static sw_code fold_parts(job *j, target *t, sw_pool *pool, sw_error *err) {
    const size_t row_bytes = j->in->cols * sizeof(float), rows = j->in->rows;
    size_t part = j->columns != NULL || rows * row_bytes <= PART_BYTES ? rows : PART_BYTES / row_bytes + 1;
    if (t->buffer_bytes < part * row_bytes) {
        free(t->buffer);
        t->buffer_bytes = part * row_bytes;
        t->buffer = malloc(t->buffer_bytes);
    }
    j->out = t->buffer;
    j->target = j->columns == NULL ? t : NULL;
    if (t->buffer == NULL) {
        t->buffer_bytes = 0;
        return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", j->in->file_name);
    }
    for (size_t r = 0; r < rows; r += part) {
        const size_t n = rows - r < part ? rows - r : part;
        j->first_row = r;
        sw_pool_for(pool, n, ROWS_A_TASK, fold_rows, j);
        if (j->columns != NULL) sw_pool_for(pool, j->in->cols, COLUMNS_A_TASK, fold_columns, j);
        if (atomic_load(&j->no_memory))
            return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", j->in->file_name);
        int failed = atomic_load(&j->write_error);
        if (j->columns != NULL) failed = write_at(t, j->out, n * row_bytes, r * row_bytes);
        if (failed != 0) return write_failed(failed, err);
    }
    return SW_OK;
}

/* rotations NULL: a copy. */
static sw_code fold(const sw_model *in, unsigned id, uint32_t layer, const sw_rotation *rotations, target *t,
                    sw_pool *pool, sw_error *err) {
    job j = {.in = sw_model_weight(in, (sw_weight_id)id, layer)};
    if (rotations == NULL) return fold_parts(&j, t, pool, err);
    float *vector = malloc(j.in->cols * sizeof *vector); /* the gamma taken in, or the norm's own new one */
    if (vector == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", j.in->file_name);
    sw_code code;
    if (is_norm(id)) {
        for (uint32_t i = 0; i < j.in->cols; i++) vector[i] = 1;
        int failed = write_at(t, vector, j.in->cols * sizeof *vector, 0);
        code = failed == 0 ? SW_OK : write_failed(failed, err);
    } else {
        if (folds[id].gamma != NO_GAMMA) {
            sw_weight_row(sw_model_weight(in, (sw_weight_id)folds[id].gamma, layer), 0, vector);
            j.gamma = vector;
        }
        if (folds[id].rows != NONE) j.rows = &rotations[folds[id].rows];
        if (folds[id].columns != NONE) j.columns = &rotations[folds[id].columns];
        code = fold_parts(&j, t, pool, err);
    }
    free(vector);
    return code;
}

/* A mapped file of that size whose name is gone, still open. Its blocks are taken at once: a full disk is an
 * error here and not a signal later. */
static sw_code map_scratch(sw_rotated_model *out, const char *folder, int *out_fd, sw_error *err) {
    char *path = sw_path_join(&out->model.arena, folder, ".spillway-rotated-XXXXXX");
    if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_interrupt_hold();
    int fd = mkostemp(path, O_CLOEXEC), reason = errno;
    if (fd >= 0) unlink(path);
    sw_interrupt_release();
    if (fd < 0) return SW_FAIL(err, SW_IO, "%s: can't create: %s", path, strerror(reason));
    int failed = posix_fallocate(fd, 0, (off_t)out->bytes);
    void *data = failed ? MAP_FAILED : mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!failed && data == MAP_FAILED) failed = errno;
    if (failed) {
        close(fd);
        return SW_FAIL(err, SW_IO, "%s: can't get %zu bytes of scratch space for the rotated weights: %s",
                       folder, out->bytes, strerror(failed));
    }
    madvise(data, out->bytes, MADV_DONTFORK); /* no process of Qualcomm's compiler reads it */
    out->data = data, *out_fd = fd;
    return SW_OK;
}

/* Views of the f32 weights to come, one behind the other, and the file's size. */
static sw_code plan(sw_rotated_model *out, const sw_model *in, sw_error *err) {
    sw_model *m = &out->model;
    m->hparams = in->hparams;
    if (out->rotated) m->hparams.tied_embeddings = false; /* only the head takes in a gamma */
    size_t n = (size_t)in->hparams.n_layers * SW_WEIGHT_COUNT;
    m->weights = sw_arena_array(&m->arena, n, sizeof *m->weights);
    if (m->weights == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t layer = (uint32_t)(i / SW_WEIGHT_COUNT);
        const sw_weight *w = sw_model_weight(in, (sw_weight_id)(i % SW_WEIGHT_COUNT), layer);
        if (layer > 0 && w == sw_model_weight(in, (sw_weight_id)(i % SW_WEIGHT_COUNT), 0)) continue;
        if (i % SW_WEIGHT_COUNT == SW_W_HEAD && m->hparams.tied_embeddings) continue;
        m->weights[i] = (sw_weight){.file_name = sw_arena_strdup(&m->arena, w->file_name),
                                    .row_bytes = (uint64_t)w->cols * sizeof(float),
                                    .rows = w->rows,
                                    .cols = w->cols,
                                    .storage = SW_STORE_F32,
                                    .mapped = true};
        if (m->weights[i].file_name == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        uint64_t bytes;
        if (!sw_mul_u64(w->rows, m->weights[i].row_bytes, &bytes) ||
            !sw_align_u64(bytes, ALIGNMENT, &bytes) || !sw_add_u64(total, bytes, &total) || total > SIZE_MAX)
            return SW_FAIL(err, SW_UNSUPPORTED, "the weights as f32 exceed the address space");
    }
    out->bytes = (size_t)total;
    return SW_OK;
}

/* Fills the file weight by weight; what is done need not stay resident. */
static sw_code fill(sw_rotated_model *out, int fd, const sw_model *in, const sw_rotation *rotations,
                    sw_pool *pool, sw_error *err) {
    size_t n = (size_t)in->hparams.n_layers * SW_WEIGHT_COUNT;
    target t = {.fd = fd};
    sw_progress progress;
    sw_progress_start(&progress, rotations != NULL ? "rotate" : "copy", n);
    sw_code code = SW_OK;
    for (size_t i = 0; i < n && code == SW_OK; i++) {
        sw_weight *w = &out->model.weights[i];
        const unsigned id = (unsigned)(i % SW_WEIGHT_COUNT);
        const uint32_t layer = (uint32_t)(i / SW_WEIGHT_COUNT);
        sw_progress_update(&progress, i + 1);
        if (w->rows == 0) continue; /* stands in layer 0, or is the embedding */
        w->data = (const uint8_t *)out->data + t.at;
        code = fold(in, id, layer, rotations, &t, pool, err);
        t.at += (w->rows * w->row_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        sw_weight_drop_pages(sw_model_weight(in, (sw_weight_id)id, layer));
    }
    sw_progress_end(&progress);
    free(t.buffer);
    return code;
}

sw_code sw_rotate_model(sw_rotated_model *out, const sw_model *in, bool rotate, const char *scratch_folder,
                        sw_pool *pool, sw_error *err) {
    *out = (sw_rotated_model){.rotated = rotate};
    sw_rotation rotations[N_ROTATIONS] = {0};
    sw_code code = SW_OK;
    if (rotate) code = sw_rotation_init(&rotations[RESIDUAL], in->hparams.hidden, 1, err);
    if (code == SW_OK && rotate) code = sw_rotation_init(&rotations[HEAD], in->hparams.head_dim, 5, err);
    if (code == SW_OK) code = plan(out, in, err);
    int fd = -1;
    if (code == SW_OK) code = map_scratch(out, scratch_folder, &fd, err);
    if (code == SW_OK) code = fill(out, fd, in, rotate ? rotations : NULL, pool, err);
    if (fd >= 0) close(fd);
    sw_rotation_free(&rotations[RESIDUAL]);
    sw_rotation_free(&rotations[HEAD]);
    if (code != SW_OK) sw_rotated_model_close(out);
    return code;
}

void sw_rotated_model_close(sw_rotated_model *rotated) {
    if (rotated->data != NULL) munmap(rotated->data, rotated->bytes);
    sw_arena_free(&rotated->model.arena);
    *rotated = (sw_rotated_model){0};
}
