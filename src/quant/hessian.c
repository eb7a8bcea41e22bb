/* hessian.c: sums of outer products, and their Cholesky factorization from the last column to the first.
 *
 * GPTQ (Frantar et al., arXiv 2210.17323) takes the upper Cholesky factor of H^-1. That is the inverse of the
 * upper R with H = R R^T, and rounding by back substitution with R itself gives the same integers
 * (arXiv 2507.18553), so H is never inverted. The factorization is in double, panel by panel: all earlier
 * panels get the products with what is done, then the panel's own 16 columns are solved. */
#include "quant/hessian.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/panels.h"

/* Where [row][column] stands in panels. */
static size_t at(size_t row, size_t column, size_t padded) {
    return (column / SW_PANEL * padded + row) * SW_PANEL + column % SW_PANEL;
}

sw_code sw_moments_init(sw_moments *m, size_t n, sw_error *err) {
    *m = (sw_moments){.n = n, .padded = (n + SW_PANEL - 1) / SW_PANEL * SW_PANEL};
    m->sums = calloc(m->padded * m->padded, sizeof *m->sums);
    m->cross = calloc(m->padded * m->padded, sizeof *m->cross);
    if (m->sums != NULL && m->cross != NULL) return SW_OK;
    sw_moments_free(m);
    return SW_FAIL(err, SW_NO_MEMORY, "no memory for the moments of %zu inputs", n);
}

void sw_moments_clear(sw_moments *m) {
    memset(m->sums, 0, m->padded * m->padded * sizeof *m->sums);
    memset(m->cross, 0, m->padded * m->padded * sizeof *m->cross);
}

void sw_moments_free(sw_moments *m) {
    free(m->sums);
    free(m->cross);
    *m = (sw_moments){0};
}

float sw_moments_get(const sw_moments *m, size_t i, size_t j) {
    size_t row = i < j ? i : j, column = i < j ? j : i;
    return m->sums[at(row, column, m->padded)];
}

typedef struct adding {
    const sw_panels_isa *isa;
    sw_moments *m;
    const float *panels, *differences; /* x and y - x as panels of `rows` rows */
    size_t rows;
} adding;

/* sums [row..][panel p] += left^T x: a tile of 8 rows. */
static void add_tile(const adding *a, const float *left, float *sums, size_t row, size_t p) {
    a->isa->tile(a->rows, left + at(0, row, a->rows), a->panels + at(0, p * SW_PANEL, a->rows),
                 sums + at(row, p * SW_PANEL, a->m->padded));
}

static void add_panels(void *context, size_t begin, size_t end) {
    const adding *a = context;
    for (size_t p = begin; p < end; p++) {
        for (size_t row = 0; row < SW_PANEL * (p + 1); row += SW_TILE)
            add_tile(a, a->panels, a->m->sums, row, p);
        for (size_t row = 0; row < a->m->padded; row += SW_TILE)
            add_tile(a, a->differences, a->m->cross, row, p);
    }
}

sw_code sw_moments_add(sw_moments *m, const float *x, const float *y, size_t rows, sw_pool *pool,
                       sw_error *err) {
    for (size_t i = 0; i < rows * m->n; i++)
        if (!isfinite(x[i]) || !isfinite(y[i]))
            return SW_FAIL(err, SW_BAD_DATA, "an input that is infinite or no number, in row %zu, column %zu",
                           i / m->n, i % m->n);
    float *panels = calloc(rows * m->padded * 2 + 1, sizeof *panels),
          *differences = panels + rows * m->padded;
    if (panels == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for %zu inputs", rows);
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < m->n; i++) {
            panels[at(t, i, rows)] = x[t * m->n + i];
            differences[at(t, i, rows)] = y[t * m->n + i] - x[t * m->n + i];
        }
    adding a = {sw_panels_best(), m, panels, differences, rows};
    sw_pool_for(pool, m->padded / SW_PANEL, 1, add_panels, &a);
    free(panels);
    return SW_OK;
}

/* lower[I] is a panel of R^T: row k >= i, column i of I: R[i][k]. */
typedef struct factoring {
    const sw_panels_isa *isa;
    double *lower;
    size_t padded, panel; /* the panel at work */
} factoring;

static double *panel_of(const factoring *f, size_t panel) {
    return f->lower + panel * f->padded * SW_PANEL;
}

/* Takes from the rows of panel J in panel I what the columns behind J have. */
static void subtract_products(const factoring *f, size_t to) {
    size_t first = f->panel * SW_PANEL, behind = first + SW_PANEL;
    double *lower = panel_of(f, to), products[SW_PANEL * SW_PANEL] = {0};
    const double *own = panel_of(f, f->panel) + behind * SW_PANEL;
    for (size_t r = 0; r < SW_PANEL; r += SW_TILE)
        f->isa->tile_f64(f->padded - behind, own + r, lower + behind * SW_PANEL, products + r * SW_PANEL);
    for (size_t i = 0; i < SW_PANEL * SW_PANEL; i++) lower[first * SW_PANEL + i] -= products[i];
}

/* The 16 rows of panel J in an earlier panel, once J's own are known. */
static void solve_panels(void *context, size_t begin, size_t end) {
    const factoring *f = context;
    const double *own = panel_of(f, f->panel) + f->panel * SW_PANEL * SW_PANEL;
    for (size_t p = begin; p < end; p++) {
        double *rows = panel_of(f, p) + f->panel * SW_PANEL * SW_PANEL;
        subtract_products(f, p);
        for (size_t c = SW_PANEL; c-- > 0;) {
            double *row = rows + c * SW_PANEL;
            for (size_t k = c + 1; k < SW_PANEL; k++)
                for (size_t i = 0; i < SW_PANEL; i++)
                    row[i] -= own[k * SW_PANEL + c] * rows[k * SW_PANEL + i];
            for (size_t i = 0; i < SW_PANEL; i++) row[i] /= own[c * SW_PANEL + c];
        }
    }
}

/* The diagonal block; false where a pivot isn't > 0. */
static bool factor_diagonal(const factoring *f) {
    double *own = panel_of(f, f->panel) + f->panel * SW_PANEL * SW_PANEL;
    subtract_products(f, f->panel);
    for (size_t c = SW_PANEL; c-- > 0;) {
        double *row = own + c * SW_PANEL;
        for (size_t k = c + 1; k < SW_PANEL; k++)
            for (size_t i = 0; i <= c; i++) row[i] -= own[k * SW_PANEL + c] * own[k * SW_PANEL + i];
        if (!(row[c] > 0) || !isfinite(row[c])) return false;
        row[c] = sqrt(row[c]);
        for (size_t i = 0; i < c; i++) row[i] /= row[c];
    }
    return true;
}

/* R^T of H with that diagonal, or false. */
static bool factor(factoring *f, const sw_moments *m, const size_t *order, const double *diagonal,
                   sw_pool *pool) {
    for (size_t p = 0; p < m->padded / SW_PANEL; p++)
        for (size_t k = p * SW_PANEL; k < m->padded; k++)
            for (size_t c = 0; c < SW_PANEL; c++)
                panel_of(f, p)[k * SW_PANEL + c] =
                    k == p * SW_PANEL + c ? diagonal[order[k]]
                                          : (double)sw_moments_get(m, order[p * SW_PANEL + c], order[k]);
    for (size_t p = m->padded / SW_PANEL; p-- > 0;) {
        f->panel = p;
        if (!factor_diagonal(f)) return false;
        sw_pool_for(pool, p, 1, solve_panels, f);
    }
    return true;
}

static void keep(sw_factor *out, const sw_moments *m, const double *diagonal, const factoring *f) {
    const size_t padded = out->padded;
    for (size_t c = 0; c < padded; c++) {
        double pivot = f->lower[at(c, c, padded)];
        out->weight[c] = (float)(pivot * pivot);
        out->diagonal[c] = (float)diagonal[out->order[c]];
        for (size_t i = 0; i < padded; i++)
            out->cross[at(i, c, padded)] = m->cross[at(out->order[i], out->order[c], padded)];
        for (size_t i = 0; i < c; i++)
            out->u[at(i, c, padded)] = out->ut[at(c, i, padded)] =
                (float)(f->lower[at(c, i, padded)] / pivot);
    }
}

/* A few thousand tokens know little of a thousand columns: without the first, rounding follows their
 * accidents. The second holds columns that hardly have values. Measured: docs/accuracy.md. */
static const double diagonal_damping = 0.3, mean_damping = 1e-3;

static sw_code damped_diagonal(const sw_moments *m, double damping, double *out, sw_error *err) {
    double sum = 0;
    for (size_t i = 0; i < m->n; i++) sum += (double)sw_moments_get(m, i, i);
    if (!isfinite(sum)) return SW_FAIL(err, SW_BAD_DATA, "moments that are infinite or no number");
    double mean = sum > 0 ? sum / (double)m->n : 1;
    for (size_t i = 0; i < m->padded; i++) {
        double h = i < m->n ? (double)sw_moments_get(m, i, i) : 0;
        out[i] = h > 0 ? h * (1 + damping) + mean * mean_damping : mean;
    }
    return SW_OK;
}

typedef struct ranked {
    double value;
    size_t index;
} ranked;

static int greatest_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Columns of the greatest moments first; but blocks stay together. */
static sw_code choose_order(size_t *order, const double *diagonal, size_t n, size_t padded, size_t block,
                            sw_error *err) {
    for (size_t i = 0; i < padded; i++) order[i] = i;
    ranked *list = malloc((n + 1) * sizeof *list);
    if (list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory to order %zu inputs", n);
    size_t n_blocks = n / block;
    for (size_t b = 0; b < n_blocks; b++) {
        list[b] = (ranked){0, b};
        for (size_t i = 0; i < block; i++) list[b].value += diagonal[b * block + i];
    }
    qsort(list, n_blocks, sizeof *list, greatest_first);
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t i = 0; i < block; i++) order[b * block + i] = list[b].index * block + i;
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < block; i++)
            list[i] = (ranked){diagonal[order[b * block + i]], order[b * block + i]};
        qsort(list, block, sizeof *list, greatest_first);
        for (size_t i = 0; i < block; i++) order[b * block + i] = list[i].index;
    }
    free(list);
    return SW_OK;
}

sw_code sw_factor_init(sw_factor *f, const sw_moments *m, size_t block, sw_pool *pool, sw_error *err) {
    size_t padded = m->padded;
    *f = (sw_factor){.n = m->n, .padded = padded};
    factoring work = {
        .isa = sw_panels_best(), .padded = padded, .lower = malloc(padded * padded * sizeof *work.lower)};
    double *diagonal = malloc(padded * sizeof *diagonal);
    f->u = calloc(padded * padded, sizeof *f->u);
    f->ut = calloc(padded * padded, sizeof *f->u);
    f->cross = calloc(padded * padded, sizeof *f->u);
    f->order = calloc(padded, sizeof *f->order);
    f->weight = malloc(padded * sizeof *f->weight);
    f->diagonal = malloc(padded * sizeof *f->diagonal);
    sw_code code = SW_OK;
    if (work.lower == NULL || diagonal == NULL || f->u == NULL || f->weight == NULL || f->diagonal == NULL)
        code = SW_FAIL(err, SW_NO_MEMORY, "no memory to factor the moments of %zu inputs", m->n);
    bool done = false;
    for (double d = diagonal_damping; code == SW_OK && !done && d < 1e3; d = d * 10 + 1e-6) {
        code = damped_diagonal(m, d, diagonal, err);
        if (code == SW_OK) code = choose_order(f->order, diagonal, m->n, padded, block, err);
        done = code == SW_OK && factor(&work, m, f->order, diagonal, pool);
    }
    if (code == SW_OK && !done)
        code = SW_FAIL(err, SW_BAD_DATA, "moments of %zu inputs that have no factor", m->n);
    if (code == SW_OK) keep(f, m, diagonal, &work);
    free(work.lower);
    free(diagonal);
    if (code != SW_OK) sw_factor_free(f);
    return code;
}

void sw_factor_free(sw_factor *f) {
    free(f->u);
    free(f->ut);
    free(f->cross);
    free(f->order);
    free(f->weight);
    free(f->diagonal);
    *f = (sw_factor){0};
}
