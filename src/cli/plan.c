/* plan.c: the command, and the steps that compile shares with it. No weight is read: a config.json is enough.
 */
#include "cli/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/quantized_model.h"
#include "graph/verify.h"
#include "model/hf_config.h"
#include "quant/ranges_json.h"

static sw_code build(sw_decoder *out, const sw_target *t, const sw_model *model, uint32_t n_shards,
                     sw_error *err) {
    sw_ranges *ranges = NULL;
    SW_TRY(sw_decoder_build_shards(out, model, t->context_len, t->kinds, t->n_kinds, n_shards, err));
    sw_code code = sw_ranges_any(&ranges, out, err);
    if (code == SW_OK) code = sw_quantize_types(out, &t->recipe, ranges, err);
    sw_ranges_free(ranges);
    if (code == SW_OK) code = sw_decoder_verify(out, err);
    if (code != SW_OK) sw_decoder_free(out);
    return code;
}

static sw_code plan(sw_decoder *decoder, sw_memory_plan *out, const sw_options *o, const sw_target *t,
                    const sw_model *model, uint32_t n_shards, sw_error *err) {
    bool sharing = sw_cli_shares_weights(t->soc, t->n_kinds);
    SW_TRY(build(decoder, t, model, n_shards, err));
    sw_code code =
        sw_memory_plan_make(out, decoder, t->soc, sharing, t->opt_level, (double)o->dram_gbps, err);
    if (code != SW_OK) sw_decoder_free(decoder);
    return code;
}

/* More shards are smaller ones, so the search goes up from what the sum alone asks for. */
static sw_code find_least_shards(sw_planned *p, const sw_options *o, const sw_target *t,
                                 const sw_model *model, sw_error *err) {
    uint32_t most = model->hparams.n_layers < SW_MAX_SHARDS ? model->hparams.n_layers : SW_MAX_SHARDS;
    const uint64_t bound = p->most_weight_bytes;
    uint64_t at_least = (p->plan.context_bytes + SW_CONTEXT_LIMIT_BYTES - 1) / SW_CONTEXT_LIMIT_BYTES;
    sw_memory_plan *other = malloc(sizeof *other);
    sw_code code = other != NULL ? SW_OK : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    p->least_shards = 0;
    for (uint64_t n = at_least; n <= most && code == SW_OK && p->least_shards == 0; n++) {
        bool fits = n == p->plan.n_shards && sw_memory_plan_fits(&p->plan, bound);
        if (n != p->plan.n_shards) {
            sw_decoder decoder;
            code = plan(&decoder, other, o, t, model, (uint32_t)n, err);
            if (code != SW_OK) break;
            fits = sw_memory_plan_fits(other, bound);
            sw_decoder_free(&decoder);
        }
        if (fits) p->least_shards = (uint32_t)n;
    }
    free(other);
    return code;
}

static uint64_t count_parameters(const sw_decoder *decoder) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < decoder->n_constants; i++) n += sw_tensor_elements(decoder->constants[i]);
    return n;
}

sw_code sw_planned_make(sw_planned *out, const sw_options *o, sw_target *t, const sw_model *model,
                        sw_error *err) {
    *out = (sw_planned){.most_weight_bytes = (uint64_t)o->max_weight_buffer_mb * 1000000};
    sw_model shapes = *model; /* its views are borrowed */
    if (t->context_len > model->hparams.context_max)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--max_context_len: %u, but the model was trained for %u positions", t->context_len,
                       model->hparams.context_max);
    if (sw_cli_wants_rotation(&t->recipe, o)) shapes.hparams.tied_embeddings = false;
    sw_target_choose_forms(t, o, &shapes.hparams);
    SW_TRY(plan(&out->decoder, &out->plan, o, t, &shapes, o->num_sharding != 0 ? o->num_sharding : 1, err));
    out->parameters = count_parameters(&out->decoder);
    if (model->hparams.tied_embeddings && !shapes.hparams.tied_embeddings) /* one table made into two */
        out->parameters -= sw_tensor_elements(out->decoder.embedding);
    sw_code code = find_least_shards(out, o, t, &shapes, err);
    if (code == SW_OK && o->num_sharding == 0 && out->least_shards > 1) {
        sw_decoder_free(&out->decoder);
        SW_TRY(plan(&out->decoder, &out->plan, o, t, &shapes, out->least_shards, err));
    }
    if (code != SW_OK)
        sw_planned_free(out);
    else
        out->compile =
            sw_compile_memory_of(&out->decoder, &out->plan, &t->recipe, sw_cli_wants_rotation(&t->recipe, o));
    return code;
}

void sw_planned_free(sw_planned *p) {
    sw_decoder_free(&p->decoder);
}

static double mb(uint64_t bytes) {
    return (double)bytes / 1e6;
}

/* --max_weight_buffer_mb, which no number of shards keeps where a tensor alone is larger. */
static sw_code fail_of_bound(const sw_planned *p, sw_error *err) {
    const sw_plan_shard *s = &p->plan.shards[0], *tensor = s;
    for (uint32_t i = 0; i < p->plan.n_shards; i++) {
        if (p->plan.shards[i].weight_bytes > s->weight_bytes) s = &p->plan.shards[i];
        if (p->plan.shards[i].largest_weight_bytes > tensor->largest_weight_bytes)
            tensor = &p->plan.shards[i];
    }
    const double bound = mb(p->most_weight_bytes);
    if (tensor->largest_weight_bytes > p->most_weight_bytes)
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "--max_weight_buffer_mb: %.0f, but `%s` alone has %.1f MB, and shards are cut between layers: "
            "wanted a larger bound, or a recipe of fewer bits",
            bound, tensor->largest_weight, mb(tensor->largest_weight_bytes));
    if (p->least_shards > 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--max_weight_buffer_mb: %.0f, but layers %u to %u have %.1f MB of weights: wanted "
                       "--num_sharding %u or more",
                       bound, s->layers.begin, s->layers.end - 1, mb(s->weight_bytes), p->least_shards);
    return SW_FAIL(
        err, SW_INVALID_ARGUMENT,
        "--max_weight_buffer_mb: %.0f, but layers %u to %u have %.1f MB of weights, and no number of "
        "shards fits: wanted a larger bound, or a recipe of fewer bits",
        bound, s->layers.begin, s->layers.end - 1, mb(s->weight_bytes));
}

sw_code sw_planned_check(const sw_planned *p, sw_error *err) {
    const sw_plan_shard *s = &p->plan.shards[p->plan.largest_shard];
    if (sw_memory_plan_fits(&p->plan, p->most_weight_bytes)) return SW_OK;
    if (sw_memory_plan_fits(&p->plan, 0)) return fail_of_bound(p, err);
    char wanted[128];
    if (p->least_shards > 0)
        snprintf(wanted, sizeof wanted, "wanted --num_sharding %u or more, or a recipe of fewer bits",
                 p->least_shards);
    else
        snprintf(wanted, sizeof wanted, "no number of shards fits: wanted a recipe of fewer bits");
    return SW_FAIL(
        err, SW_INVALID_ARGUMENT,
        "the context binary of layers %u to %u needs about %llu bytes (weights %llu), and a process "
        "of the HTP can map about %u: %s",
        s->layers.begin, s->layers.end - 1, (unsigned long long)s->context_bytes,
        (unsigned long long)s->weight_bytes, SW_CONTEXT_LIMIT_BYTES, wanted);
}

/* ---- The command ---- */

/* A folder with a config.json, a config.json, or a GGUF file. */
static sw_code open_shapes(sw_model *out, const char *path, sw_arena *arena, sw_error *err) {
    bool gguf = false;
    if (sw_cli_is_folder(path)) {
        path = sw_path_join(arena, path, "config.json");
        if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    } else {
        sw_file_map map;
        SW_TRY(sw_file_map_open(&map, path, err));
        enum { MOST_SPACES = 4096 }; /* a config has a line break before its brace, if anything */
        size_t i = 0, n = strlen(path);
        while (i < map.size && i < MOST_SPACES && map.data[i] != 0 && strchr(" \t\r\n", map.data[i]) != NULL)
            i++;
        bool named_json = n > 5 && strcmp(path + n - 5, ".json") == 0;
        gguf = !named_json && (i == map.size || map.data[i] != '{');
        sw_file_map_close(&map);
    }
    if (gguf) return sw_model_open_shapes(out, path, err); /* which names what is no GGUF file */
    sw_hparams hparams;
    SW_TRY(sw_hf_config_read(&hparams, path, err));
    return sw_model_of_shapes(out, &hparams, err);
}

static sw_code print(const sw_options *o, sw_target *t, const sw_model *model, sw_error *err) {
    sw_planned *p = malloc(sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    sw_code code = sw_planned_make(p, o, t, model, err);
    if (code == SW_OK) {
        p->model = o->operand;
        if (o->json)
            code = sw_planned_print_json(p, t, stdout, err);
        else
            sw_planned_print(p, t, stdout);
        if (code == SW_OK) code = sw_planned_check(p, err);
        sw_planned_free(p);
    }
    free(p);
    return code;
}

sw_code sw_cmd_plan(const sw_options *o, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_model model = {0};
    sw_target target;
    sw_code code = sw_target_read(&target, o, &arena, err);
    if (code == SW_OK) code = sw_cli_check_target(target.soc, &target.recipe, target.n_kinds, false, err);
    if (code == SW_OK) code = open_shapes(&model, o->operand, &arena, err);
    if (code == SW_OK) code = print(o, &target, &model, err);
    sw_model_close(&model);
    sw_arena_free(&arena);
    return code;
}
