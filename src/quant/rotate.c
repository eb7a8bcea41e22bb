/* rotate.c: randomized Hadamard matrices for sizes 2^k m.
 *
 * Sylvester's H of order 2^k is a fast Walsh-Hadamard transform. For the odd part m, B has the least order
 * p = m 2^j for which a construction of Paley (1933) gives a Hadamard matrix: 576 = 16 * 36, 960 = 16 * 60.
 *   I:  p - 1 = q prime, q mod 4 = 3:      B = 1 + S
 *   II: p / 2 - 1 = q prime, q mod 4 = 1:  B = S x [1 1; 1 -1] + 1 x [1 -1; -1 -1]
 * with S = [0 1; +-1 Q], Q[i][j] = the Legendre symbol of i - j mod q: S is skew for I, symmetric for II.
 * Random signs before it keep any one direction that a model may favour (all channels equal, say) from coming
 * out as one channel.
 */
#include "quant/rotate.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "quant/rotate_loops.h"

static bool is_prime(uint32_t n) {
    for (uint32_t d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

/* S[i][j] of order q + 1; squares[a] says whether a is a square mod q, a > 0. */
static float paley_entry(const bool *squares, uint32_t q, uint32_t i, uint32_t j) {
    if (i == j) return 0;
    if (i == 0) return 1;
    if (j == 0) return q % 4 == 1 ? 1 : -1;
    return squares[(i + q - j) % q] ? 1 : -1;
}

/* B of order p by construction I (q = p - 1) or II (q = p / 2 - 1), orthogonal. */
static void fill_paley(float *dense, uint32_t p, uint32_t q, const bool *squares) {
    uint32_t copies = p / (q + 1);
    static const float with_s[2][2] = {{1, 1}, {1, -1}}, with_1[2][2] = {{1, -1}, {-1, -1}};
    float norm = 1 / sqrtf((float)p);
    for (uint32_t i = 0; i < p; i++) {
        for (uint32_t j = 0; j < p; j++) {
            uint32_t a = i % copies, b = j % copies;
            float s = paley_entry(squares, q, i / copies, j / copies);
            dense[(size_t)i * p + j] = norm * (s != 0 ? s * with_s[a][b] : with_1[a][b]);
        }
    }
}

/* The orthogonal cosine transform (DCT-II). */
static void fill_cosines(float *dense, uint32_t m) {
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j < m; j++)
            dense[(size_t)i * m + j] =
                (float)(sqrt((i == 0 ? 1.0 : 2.0) / m) * cos(acos(-1.0) * (j + 0.5) * i / m));
}

/* The least order m 2^j of B that divides size, with Paley's q; q 0 for the cosine transform. */
static uint32_t choose_block(uint32_t size, uint32_t odd, uint32_t *q) {
    for (uint32_t p = 4 * odd; p <= SW_ROTATION_MAX_BLOCK && size % p == 0; p *= 2) {
        *q = p - 1;
        if (is_prime(*q)) return p;
        *q = p / 2 - 1;
        if (*q % 4 == 1 && is_prime(*q)) return p;
    }
    *q = 0;
    return odd;
}

sw_code sw_rotation_init(sw_rotation *r, uint32_t size, uint64_t seed, sw_error *err) {
    *r = (sw_rotation){.size = size, .block = 1, .loops = sw_rotate_best()};
    uint32_t odd = size, q;
    while (odd > 0 && odd % 2 == 0) odd /= 2;
    if (odd == 0 || odd > SW_ROTATION_MAX_BLOCK)
        return SW_FAIL(err, SW_UNSUPPORTED,
                       "no rotation for %u channels: wanted a power of two times at most %d", size,
                       SW_ROTATION_MAX_BLOCK);
    r->signs = sw_arena_array(&r->arena, size, sizeof *r->signs);
    bool failed = r->signs == NULL;
    if (odd > 1) {
        r->block = choose_block(size, odd, &q);
        r->dense = sw_arena_array(&r->arena, (size_t)r->block * r->block, sizeof *r->dense);
        bool *squares = sw_arena_array(&r->arena, q + 1u, sizeof *squares);
        failed = failed || r->dense == NULL || squares == NULL;
        for (uint32_t a = 1; a < q && !failed; a++) squares[a * a % q] = true;
        if (!failed && q > 0) fill_paley(r->dense, r->block, q, squares);
        if (!failed && q == 0) fill_cosines(r->dense, r->block);
    }
    if (failed) {
        sw_rotation_free(r);
        return SW_FAIL(err, SW_NO_MEMORY, "no memory for a rotation of %u channels", size);
    }
    float norm = 1 / sqrtf((float)(size / r->block));
    for (uint32_t i = 0; i < size; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
        r->signs[i] = seed >> 63 != 0 ? norm : -norm;
    }
    return SW_OK;
}

void sw_rotation_free(sw_rotation *r) {
    sw_arena_free(&r->arena);
    *r = (sw_rotation){0};
}

void sw_rotation_apply(const sw_rotation *r, float *restrict x, size_t width, float *restrict scratch) {
    const sw_rotate_loops *loops = r->loops;
    size_t walsh = r->size / r->block, run = walsh * width; /* floats of one index of B */
    for (size_t i = 0; i < r->size && width == 1; i++) x[i] *= r->signs[i];
    for (size_t i = 0; i < r->size && width > 1; i++)
        for (size_t k = 0; k < width; k++) x[i * width + k] *= r->signs[i];
    for (size_t i = 0; i < r->block; i++) loops->walsh(x + i * run, walsh, width);
    if (r->dense == NULL) return;
    loops->dense(r->block, run, r->dense, x, scratch);
    memcpy(x, scratch, r->size * width * sizeof *x);
}
