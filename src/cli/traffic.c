/* traffic.c: the command: expands the grid, takes what the cache has, measures the rest one by one, prints.
 */
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/traffic.h"

sw_code sw_traffic_open(sw_traffic *t, sw_error *err) {
    SW_TRY(sw_cli_find_model(t->options, &t->arena, &t->checkpoint, err));
    SW_TRY(sw_model_open_shapes(&t->model, t->checkpoint, err));
    SW_TRY(sw_cli_check_model(t->options, &t->model, t->checkpoint, err));
    SW_TRY(sw_traffic_expand(t, err));
    return sw_traffic_find_cache(t, err);
}

sw_code sw_traffic_look_all_up(sw_traffic *t, uint32_t *missing, sw_error *err) {
    *missing = 0;
    SW_TRY(sw_cli_open_library(t->options, &t->library, err));
    SW_TRY(sw_traffic_digest(t, err));
    for (uint32_t i = 0; i < t->n_points; i++) {
        SW_TRY(sw_traffic_find_key(t, &t->points[i], err));
        SW_TRY(sw_traffic_look_up(t, &t->points[i], err));
        *missing += !t->points[i].known;
    }
    return SW_OK;
}

static sw_code measure_only(sw_traffic *t, sw_error *err) {
    const char *wanted = t->options->grid.only;
    sw_traffic_point *found = NULL;
    for (uint32_t i = 0; i < t->n_points; i++) {
        if (strcmp(t->points[i].graph, wanted) != 0) continue;
        if (found != NULL)
            return SW_FAIL(err, SW_INVALID_ARGUMENT,
                           "--only %s: the grid has more than one, wanted one value an option", wanted);
        found = &t->points[i];
    }
    if (found == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--only: `%s` is no graph of this grid, wanted prefill_forward or kv_forward", wanted);
    t->points[0] = *found, t->n_points = 1;
    uint32_t missing;
    SW_TRY(sw_traffic_look_all_up(t, &missing, err));
    return missing == 0 ? SW_OK : sw_traffic_measure(t, &t->points[0], err);
}

sw_code sw_traffic_measure_missing(sw_traffic *t, uint32_t missing, sw_error *err) {
    char text[SW_TRAFFIC_POINT_BYTES];
    uint32_t done = 0, failed = 0;
    sw_error reason;
    for (uint32_t i = 0; i < t->n_points; i++) {
        sw_traffic_point *p = &t->points[i];
        if (p->known) continue;
        sw_code code = sw_traffic_spawn(t, p, &reason);
        if (code == SW_OK) code = sw_traffic_look_up(t, p, &reason);
        if (code == SW_OK && !p->known)
            code = SW_FAIL(&reason, SW_INTERNAL, "%s: ended without a result",
                           sw_traffic_point_text(t, p, text));
        done++, failed += code != SW_OK;
        if (code != SW_OK)
            sw_log(SW_LOG_WARN, "%u/%u: %s", done, missing, reason.message);
        else
            sw_log(SW_LOG_INFO, "%u/%u: %s: read %.1f MB, write %.1f MB, %.1f s", done, missing,
                   sw_traffic_point_text(t, p, text), (double)p->figures.read / 1e6,
                   (double)p->figures.write / 1e6, p->figures.finalize_seconds);
    }
    if (failed == 0) return SW_OK;
    return SW_FAIL(err, SW_LIBRARY, "%u of %u points failed; the same command tries them again", failed,
                   missing);
}

static sw_code merge_all(sw_traffic *t, sw_error *err) {
    for (uint32_t i = 0; i < t->options->grid.n_merge; i++) {
        uint32_t n;
        SW_TRY(sw_traffic_merge(t, t->options->grid.merge[i], &n, err));
        sw_log(SW_LOG_INFO, "%s: %u new results", t->options->grid.merge[i], n);
    }
    return SW_OK;
}

static sw_code traffic(sw_traffic *t, sw_error *err) {
    const sw_options *o = t->options;
    const struct sw_grid_options *g = &o->grid;
    if ((g->only != NULL) + (g->jobs != NULL || g->slurm != NULL) + (g->n_merge > 0) > 1)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--only, --merge, and --jobs or --slurm exclude each other: wanted one of them");
    if (o->json && g->tsv) return SW_FAIL(err, SW_INVALID_ARGUMENT, "--json and --tsv: wanted one of them");
    SW_TRY(sw_traffic_open(t, err));
    if (g->only != NULL) return measure_only(t, err);
    if (g->jobs != NULL) SW_TRY(sw_traffic_write_jobs(t, g->jobs, err));
    if (g->slurm != NULL) SW_TRY(sw_traffic_write_slurm(t, g->slurm, err));
    if (g->jobs != NULL || g->slurm != NULL) {
        sw_log(SW_LOG_INFO, "%u jobs, results in %s", t->n_points, t->cache);
        return SW_OK;
    }
    uint32_t missing;
    SW_TRY(merge_all(t, err));
    SW_TRY(sw_traffic_look_all_up(t, &missing, err));
    sw_log(SW_LOG_INFO, "%u points, %u of them in %s", t->n_points, t->n_points - missing, t->cache);
    sw_code code = SW_OK;
    if (missing > 0 && g->n_merge > 0)
        sw_log(SW_LOG_WARN, "%u points are in none of the caches; without --merge they are measured",
               missing);
    else if (missing > 0)
        code = sw_traffic_measure_missing(t, missing, err);
    sw_traffic_format format = o->json ? SW_TRAFFIC_JSON : g->tsv ? SW_TRAFFIC_TSV : SW_TRAFFIC_TEXT;
    sw_code printed = sw_traffic_print(t, format, stdout, code == SW_OK ? err : NULL);
    return code != SW_OK ? code : printed;
}

void sw_traffic_close(sw_traffic *t) {
    sw_model_close(&t->model);
    sw_arena_free(&t->arena);
}

sw_code sw_cmd_traffic(const sw_options *options, sw_error *err) {
    sw_traffic t = {.options = options};
    sw_code code = traffic(&t, err);
    sw_traffic_close(&t);
    return code;
}
