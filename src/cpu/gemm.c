/* gemm.c: the loops around the tiles: cache blocks, packing, threads.
 *
 * A task is a group of panels of one batch. Its panels stay in L2 while strips of 12 rows of x, which stay in
 * L1, pass by (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, with the
 * parts of the matrices exchanged: here the right one is dear to get, so it is got once). */
#include "cpu/gemm.h"

#include <string.h>

#include "cpu/tasks.h"

enum {
    K_BLOCK = 1024,           /* terms of a panel that are worked on at once: 128 KiB */
    GROUP_BYTES = 384 * 1024, /* of panels; L2 has 512 KiB to 2 MiB on what has AVX2 */
    GROUP_PANELS_MAX = 8,
    ROWS_A_TASK = 32 /* of w, where x has few rows */
};

sw_rows sw_rows_of(const sw_tensor *t, const void *data) {
    sw_rows rows = {.cols = t->dims[t->rank - 1]};
    if (data == NULL)
        rows.view = t->weight, rows.round_to_f16 = t->dtype == SW_F16;
    else if (t->dtype == SW_S8)
        rows.s8 = t;
    else if (t->dtype == SW_F16)
        rows.f16 = data;
    else
        rows.f32 = data;
    return rows;
}

const float *sw_rows_get(const sw_rows *rows, const sw_f32_isa *isa, size_t row, float *buffer) {
    if (rows->f32 != NULL) return rows->f32 + row * rows->cols;
    if (rows->f16 != NULL) {
        isa->from_f16(rows->cols, rows->f16 + row * rows->cols, buffer);
        return buffer;
    }
    if (rows->s8 != NULL) {
        sw_weight_matrix_row(rows->s8, row, buffer);
        return buffer;
    }
    const sw_weight *w = rows->view;
    if (w->storage == SW_STORE_F32 && w->interleaved_head_dim == 0 && !rows->round_to_f16 &&
        (uintptr_t)w->data % sizeof(float) == 0)
        return (const float *)(const void *)w->data + row * w->cols;
    sw_weight_row(w, (uint32_t)row, buffer);
    for (size_t i = 0; rows->round_to_f16 && i < rows->cols; i += 64) {
        uint16_t half[64];
        size_t n = rows->cols - i < 64 ? rows->cols - i : 64;
        isa->to_f16(n, buffer + i, half);
        isa->from_f16(n, half, buffer + i);
    }
    return buffer;
}

/* A worker's scratch: [columns: 8 rows of w][panels of a group] floats. */
static size_t padded(size_t k) {
    return (k + 15) / 16 * 16;
}

static size_t group_panels_most(size_t k) {
    size_t n = GROUP_BYTES / (k * SW_TILE_COLS * sizeof(float));
    return n < 1 ? 1 : n > GROUP_PANELS_MAX ? GROUP_PANELS_MAX : n;
}

static size_t worker_floats(size_t k) {
    return SW_PACK_COLS * padded(k) + group_panels_most(k) * k * SW_TILE_COLS;
}

size_t sw_gemm_scratch_bytes(size_t k, size_t threads) {
    return threads * worker_floats(k) * sizeof(float);
}

typedef struct gemm_job {
    const sw_gemm *gemm;
    const sw_f32_isa *isa;
    float *scratch;
    size_t n_panels, group_panels, n_groups; /* of a batch */
} gemm_job;

static void pack_panel(const gemm_job *job, size_t batch, size_t first_col, float *columns, float *panel) {
    const sw_gemm *g = job->gemm;
    size_t n = g->cols - first_col < SW_TILE_COLS ? g->cols - first_col : SW_TILE_COLS;
    if (g->b != NULL) {
        const float *b = g->b + batch * g->k * g->cols + first_col;
        for (size_t i = 0; i < g->k; i++, panel += SW_TILE_COLS) {
            memcpy(panel, b + i * g->cols, n * sizeof *panel);
            memset(panel + n, 0, (SW_TILE_COLS - n) * sizeof *panel);
        }
        return;
    }
    for (size_t c = 0; c < SW_TILE_COLS; c += SW_PACK_COLS) {
        const float *column[SW_PACK_COLS];
        for (size_t j = 0; j < SW_PACK_COLS; j++) {
            float *buffer = columns + j * padded(g->k);
            if (c + j < n)
                column[j] = sw_rows_get(&g->w, job->isa, batch * g->cols + first_col + c + j, buffer);
            else
                column[j] = memset(buffer, 0, g->k * sizeof *buffer);
        }
        job->isa->pack(g->k, column, panel + c);
    }
}

/* One tile; the last panel's may be narrower than 32, and goes through a tile of its own. */
static void run_tile(const gemm_job *job, size_t rows, size_t cols, size_t k, const float *x,
                     const float *panel, float *y, bool add) {
    const sw_gemm *g = job->gemm;
    if (cols == SW_TILE_COLS) {
        job->isa->tile(rows, k, x, g->k, panel, y, g->cols, add);
        return;
    }
    float whole[SW_TILE_ROWS * SW_TILE_COLS] = {0};
    for (size_t r = 0; add && r < rows; r++)
        memcpy(whole + r * SW_TILE_COLS, y + r * g->cols, cols * sizeof *y);
    job->isa->tile(rows, k, x, g->k, panel, whole, SW_TILE_COLS, add);
    for (size_t r = 0; r < rows; r++) memcpy(y + r * g->cols, whole + r * SW_TILE_COLS, cols * sizeof *y);
}

static void run_group(void *context, size_t worker, size_t task) {
    const gemm_job *job = context;
    const sw_gemm *g = job->gemm;
    size_t batch = task / job->n_groups, first_panel = task % job->n_groups * job->group_panels;
    size_t n_panels = job->n_panels - first_panel;
    if (n_panels > job->group_panels) n_panels = job->group_panels;
    float *columns = job->scratch + worker * worker_floats(g->k),
          *panels = columns + SW_PACK_COLS * padded(g->k);
    for (size_t p = 0; p < n_panels; p++)
        pack_panel(job, batch, (first_panel + p) * SW_TILE_COLS, columns, panels + p * g->k * SW_TILE_COLS);

    const float *x = g->x + batch * g->rows * g->k;
    float *y = g->y + batch * g->rows * g->cols;
    for (size_t k = 0; k < g->k; k += K_BLOCK) {
        size_t n_k = g->k - k < K_BLOCK ? g->k - k : K_BLOCK;
        for (size_t r = 0; r < g->rows; r += SW_TILE_ROWS) {
            size_t n_rows = g->rows - r < SW_TILE_ROWS ? g->rows - r : SW_TILE_ROWS;
            for (size_t p = 0; p < n_panels; p++) {
                size_t c = (first_panel + p) * SW_TILE_COLS;
                size_t n_cols = g->cols - c < SW_TILE_COLS ? g->cols - c : SW_TILE_COLS;
                run_tile(job, n_rows, n_cols, n_k, x + r * g->k + k, panels + (p * g->k + k) * SW_TILE_COLS,
                         y + r * g->cols + c, k > 0);
            }
        }
    }
}

/* Few rows: each row of w is used so little that packing it would cost more than the product. */
static void run_few_rows(void *context, size_t worker, size_t task) {
    const gemm_job *job = context;
    const sw_gemm *g = job->gemm;
    float *buffer = job->scratch + worker * worker_floats(g->k);
    size_t end = (task + 1) * ROWS_A_TASK < g->cols ? (task + 1) * ROWS_A_TASK : g->cols;
    for (size_t c = task * ROWS_A_TASK; c < end; c++) {
        const float *row = sw_rows_get(&g->w, job->isa, c, buffer);
        for (size_t r = 0; r < g->rows; r++)
            g->y[r * g->cols + c] = job->isa->dot(g->k, row, g->x + r * g->k);
    }
}

void sw_gemm_run(const sw_gemm *gemm, const sw_f32_isa *isa, void *scratch, sw_pool *pool) {
    gemm_job job = {.gemm = gemm, .isa = isa, .scratch = scratch};
    if (gemm->b == NULL && gemm->batches == 1 && gemm->rows < SW_GEMM_FEW_ROWS) {
        sw_tasks_run(pool, (gemm->cols + ROWS_A_TASK - 1) / ROWS_A_TASK, run_few_rows, &job);
        return;
    }
    job.n_panels = (gemm->cols + SW_TILE_COLS - 1) / SW_TILE_COLS;
    /* Large groups spare reads of x; but every thread should have a few of them. */
    size_t spread = job.n_panels * gemm->batches / (4 * sw_pool_threads(pool));
    size_t most = group_panels_most(gemm->k);
    job.group_panels = spread < 1 ? 1 : spread < most ? spread : most;
    job.n_groups = (job.n_panels + job.group_panels - 1) / job.group_panels;
    sw_tasks_run(pool, job.n_groups * gemm->batches, run_group, &job);
}
