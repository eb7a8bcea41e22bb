/* traffic.h: the DDR traffic of graphs over a grid of compile options, as Qualcomm's compiler tells it.
 *
 * A point is one graph with one set of options. Each is compiled alone, in a process of its own: the
 * compiler's DDR summary carries no graph's name, and inside a process it does one graph at a time anyway.
 * What was measured is kept under a key of all that it depends on, so that a run can be stopped and go on.
 *
 *   CACHE/prepared/<16 hex>/   a bundle without contexts: a model's integers for a recipe, with its ranges
 *   CACHE/results/<64 hex>.json   a point's figures, by key */
#ifndef SW_CLI_TRAFFIC_H
#define SW_CLI_TRAFFIC_H

#include <stdio.h>

#include "base/sha256.h"
#include "cli/options.h"
#include "graph/decoder.h"
#include "qnn/load.h"
#include "quant/quant.h"
#include "soc/soc.h"

/* What the compiler said of one graph; bytes are of one call. */
typedef struct sw_traffic_figures {
    uint64_t spill, fill, write, read; /* the DDR summary; write and read have spill and fill in them */
    uint64_t spill_fill_bytes;         /* size of the spill-fill buffer */
    uint64_t vtcm_bytes, binary_bytes; /* of a context with this graph alone */
    uint32_t n_ops;
    bool slc_idle; /* the SLC allocator was on and said that there was nothing to allocate for */
    double finalize_seconds;
} sw_traffic_figures;

typedef struct sw_traffic_point {
    const char *graph; /* "prefill_forward", "kv_forward" */
    const sw_soc *soc;
    uint32_t recipe; /* index in the grid's */
    uint32_t ar_len, context_len, vtcm_mb, opt_level;
    sw_attention_form attention;
    uint32_t top_k;  /* of the head; 0: all logits */
    uint32_t layers; /* the model's first ones */
    bool slc;
    char key[SW_SHA256_HEX_BYTES];
    bool known; /* figures are there */
    sw_traffic_figures figures;
} sw_traffic_point;

enum { SW_TRAFFIC_MAX_VALUES = 32 }; /* of one list */

typedef struct sw_traffic_recipe {
    const char *name; /* as given: a name or a file */
    sw_recipe recipe;
    char digest[SW_SHA256_HEX_BYTES]; /* of checkpoint, recipe and calibration: the weights' identity */
} sw_traffic_recipe;

typedef struct sw_traffic {
    const sw_options *options;
    sw_arena arena;
    const char *checkpoint; /* path */
    sw_model model;         /* shapes alone */
    const sw_qnn_library *library;
    const char *cache;
    sw_traffic_recipe recipes[SW_TRAFFIC_MAX_VALUES];
    uint32_t n_recipes;
    sw_traffic_point *points;
    uint32_t n_points;
} sw_traffic;

/* The model's shapes, the grid's points and the cache, by the options. Close after it, also where it failed.
 */
sw_code sw_traffic_open(sw_traffic *t, sw_error *err) SW_MUST_CHECK;
void sw_traffic_close(sw_traffic *t);

/* Opens the library and fills in what the cache has; *missing: how many points it has not. */
sw_code sw_traffic_look_all_up(sw_traffic *t, uint32_t *missing, sw_error *err) SW_MUST_CHECK;

/* Measures those, one by one. What fails is said and passed over, so that one point that can't be compiled
 * doesn't hide the others: then SW_LIBRARY, and the others have their figures. */
sw_code sw_traffic_measure_missing(sw_traffic *t, uint32_t missing, sw_error *err) SW_MUST_CHECK;

/* The grid's points in the order of its lists: prefill graphs by AR length, then the decode graph, each once.
 * Needs the model. Errors: SW_INVALID_ARGUMENT with option, value and what is legal. */
sw_code sw_traffic_expand(sw_traffic *t, sw_error *err) SW_MUST_CHECK;

/* "prefill_forward, SM8750, 16a8w, AR 32, context 128, VTCM 8 MB, O3, SLC off, grouped, all logits, 30
 * layers" */
enum { SW_TRAFFIC_POINT_BYTES = 256 };
const char *sw_traffic_point_text(const sw_traffic *t, const sw_traffic_point *p,
                                  char out[SW_TRAFFIC_POINT_BYTES]);

/* The folder of results and prepared models; made where it isn't there. */
sw_code sw_traffic_find_cache(sw_traffic *t, sw_error *err) SW_MUST_CHECK;

/* Fills the recipes' digests; reads all of the checkpoint. */
sw_code sw_traffic_digest(sw_traffic *t, sw_error *err) SW_MUST_CHECK;

/* Fills a point's key, from its graph as built for the shapes, the weights' identity, the options and the
 * library; the graph's encodings are no part of it: traffic doesn't depend on them. */
sw_code sw_traffic_find_key(sw_traffic *t, sw_traffic_point *p, sw_error *err) SW_MUST_CHECK;

/* Looks the point's figures up; p->known says whether they are there. Errors: SW_BAD_DATA for a file that is
 * no result. */
sw_code sw_traffic_look_up(sw_traffic *t, sw_traffic_point *p, sw_error *err) SW_MUST_CHECK;
sw_code sw_traffic_keep(sw_traffic *t, const sw_traffic_point *p, sw_error *err) SW_MUST_CHECK;

/* Takes all results of another cache over; *n of them were new. */
sw_code sw_traffic_merge(sw_traffic *t, const char *from, uint32_t *n, sw_error *err) SW_MUST_CHECK;

/* Is the graph compiled for a context in which graphs share weights, as compile does it? That changes what is
 * read: constants stand in a block of their own, about 2 % more. */
bool sw_traffic_shares_weights(const sw_traffic *t, const sw_traffic_point *p);

/* Builds a point's float graph, alone in its decoder. */
sw_code sw_traffic_build(const sw_traffic *t, const sw_traffic_point *p, sw_decoder *out,
                         sw_error *err) SW_MUST_CHECK;

/* Measures a point in this process, and keeps it. The model is prepared first where the cache has it not yet;
 * of several processes one does, and the others wait. */
sw_code sw_traffic_measure(sw_traffic *t, sw_traffic_point *p, sw_error *err) SW_MUST_CHECK;
/* The preparation alone. */
sw_code sw_traffic_prepare(sw_traffic *t, uint32_t recipe, sw_error *err) SW_MUST_CHECK;

/* The command that measures the point, as words (NULL at the end) in the arena: the first is this program. */
sw_code sw_traffic_command(sw_traffic *t, const sw_traffic_point *p, const char *const **words,
                           sw_error *err) SW_MUST_CHECK;
/* Runs it; SW_LIBRARY where it failed, and why was said by it on stderr. */
sw_code sw_traffic_spawn(sw_traffic *t, const sw_traffic_point *p, sw_error *err) SW_MUST_CHECK;

/* A line for each point, and a script with a case for each. */
sw_code sw_traffic_write_jobs(sw_traffic *t, const char *path, sw_error *err) SW_MUST_CHECK;
sw_code sw_traffic_write_slurm(sw_traffic *t, const char *path, sw_error *err) SW_MUST_CHECK;

typedef enum sw_traffic_format { SW_TRAFFIC_TEXT, SW_TRAFFIC_TSV, SW_TRAFFIC_JSON } sw_traffic_format;
sw_code sw_traffic_print(const sw_traffic *t, sw_traffic_format format, FILE *stream,
                         sw_error *err) SW_MUST_CHECK;

#endif
