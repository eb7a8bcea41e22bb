/* target.c: the SoC that is compiled for, and what it can't do, said before any work.
 *
 * The table knows SoCs by name and number. One that it lacks is given by hand; what the table does know can't
 * be contradicted. */
#include <string.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/target.h"
#include "soc/soc_memory.h"

enum { FLOAT_BLOCKS_LEAST_ARCH = 69, BLOCKWISE_LEAST_ARCH = 69, KV16_LEAST_ARCH = 73 };

static sw_code check_given(const sw_options *o, const sw_soc *soc, sw_error *err) {
    if (o->soc_id != 0 && o->soc_id != soc->model_id)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--soc_id: %u, but %s is %u", o->soc_id, soc->name,
                       soc->model_id);
    if (o->htp_arch != 0 && o->htp_arch != soc->htp_arch)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--htp_arch: %u, but %s has a V%u", o->htp_arch, soc->name,
                       soc->htp_arch);
    if (o->vtcm_mb > soc->vtcm_mb)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--vtcm_mb: %u, but %s has %u MB", o->vtcm_mb, soc->name,
                       soc->vtcm_mb);
    return SW_OK;
}

sw_code sw_cli_target(const sw_options *o, sw_arena *arena, const sw_soc **out, sw_error *err) {
    if (o->soc == NULL && o->soc_id == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "no SoC given: wanted --soc_model NAME, for example SM8750");
    *out = o->soc != NULL ? sw_soc_find(o->soc) : NULL;
    if (*out == NULL && o->soc_id != 0) *out = sw_soc_find_id(o->soc_id);
    if (*out != NULL) return check_given(o, *out, err);
    if (o->soc_id == 0) {
        SW_TRY(sw_soc_get(o->soc, out, err));
        return SW_OK;
    }
    enum { MOST_NAME_BYTES = 64 }; /* as a manifest takes it */
    if (o->soc != NULL) SW_TRY(sw_options_check_name("soc_model", o->soc, err));
    if (o->soc != NULL && strlen(o->soc) > MOST_NAME_BYTES)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--soc_model: `%s`: wanted a name of at most %d bytes",
                       o->soc, MOST_NAME_BYTES);
    if (o->htp_arch == 0 || o->vtcm_mb == 0)
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "--soc_id: %u is no SoC that this build knows: wanted its --htp_arch and --vtcm_mb too",
            o->soc_id);
    sw_soc *soc = sw_arena_alloc(arena, sizeof *soc);
    const char *name =
        o->soc != NULL ? sw_arena_strdup(arena, o->soc) : sw_arena_printf(arena, "SOC%u", o->soc_id);
    if (soc == NULL || name == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *soc = (sw_soc){.name = name, .model_id = o->soc_id, .htp_arch = o->htp_arch, .vtcm_mb = o->vtcm_mb};
    *out = soc;
    return SW_OK;
}

bool sw_cli_shares_weights(const sw_soc *soc, uint32_t n_kinds) {
    return n_kinds > 1 && soc->htp_arch >= SW_WEIGHT_SHARING_LEAST_ARCH;
}

sw_code sw_cli_check_target(const sw_soc *soc, const sw_recipe *recipe, uint32_t n_kinds, bool slc,
                            sw_error *err) {
    static const struct {
        sw_scales scales;
        uint32_t arch;
        const char *what;
    } forms[] = {{SW_SCALES_FLOAT_BLOCK, FLOAT_BLOCKS_LEAST_ARCH, "blocks of weights with f16 scales"},
                 {SW_SCALES_BLOCKWISE, BLOCKWISE_LEAST_ARCH, "blockwise weights"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (sw_recipe_has_scales(recipe, forms[i].scales) && soc->htp_arch < forms[i].arch)
            return SW_FAIL(err, SW_UNSUPPORTED, "recipe %s: %s need a V%u or later, %s has a V%u",
                           recipe->name, forms[i].what, forms[i].arch, soc->name, soc->htp_arch);
    if (recipe->kv == SW_U16 && soc->htp_arch < KV16_LEAST_ARCH)
        return SW_FAIL(
            err, SW_UNSUPPORTED,
            "recipe %s: a KV cache of 16 bits needs a V%d or later, which multiplies 16 by 16 bits; %s "
            "has a V%u: wanted --kv_bits 8",
            recipe->name, KV16_LEAST_ARCH, soc->name, soc->htp_arch);
    if (n_kinds > 1 && !sw_cli_shares_weights(soc, n_kinds))
        sw_log(SW_LOG_WARN, "%s has a V%u: graphs can share weights from V%d on, so each gets a copy",
               soc->name, soc->htp_arch, SW_WEIGHT_SHARING_LEAST_ARCH);
    if (slc && sw_soc_memory_of(soc).compute == SW_SLICE_NONE)
        sw_log(SW_LOG_WARN,
               "--use_slc_allocator: the system-level cache of %s has no part for the HTP that is publicly "
               "known: the allocator may be refused or without effect on the phone",
               soc->name);
    return SW_OK;
}

sw_code sw_target_read(sw_target *t, const sw_options *o, sw_arena *arena, sw_error *err) {
    *t = (sw_target){.context_len = o->max_context_len != 0 ? o->max_context_len : o->max_seq_len,
                     .opt_level = o->opt_level != 0 ? o->opt_level : SW_DEFAULT_OPT_LEVEL};
    SW_TRY(sw_cli_target(o, arena, &t->soc, err));
    SW_TRY(sw_recipe_load(&t->recipe, o->quant, o->kv_bits, arena, err));
    if (strcmp(o->model_mode, "lookahead") == 0)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--model_mode lookahead: not yet in this build, wanted hybrid or kv");
    if (!sw_top_k_from_text(o->logits, &t->top_k))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--logits: `%s`, wanted all or topk:N with N of at least 1",
                       o->logits);
    SW_TRY(sw_cli_check_top_k(o, t->top_k, err));
    t->vtcm_mb = o->vtcm_mb != 0 ? o->vtcm_mb : t->soc->vtcm_mb;
    uint32_t context = t->context_len;
    bool hybrid = strcmp(o->model_mode, "hybrid") == 0;
    if (o->max_seq_len > context)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--max_seq_len: %u, wanted at most --max_context_len %u",
                       o->max_seq_len, context);
    if (t->recipe.sink && context < 2)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "recipe %s keeps the chat's first token in the context: wanted --max_seq_len of at "
                       "least 2",
                       t->recipe.name);
    if (hybrid && context < 3)
        return SW_FAIL(
            err, SW_INVALID_ARGUMENT,
            "a context of %u tokens is too short for a prefill graph: wanted --max_seq_len of at least 3, "
            "or --model_mode kv",
            context);
    if (hybrid && o->prefill_ar_len >= context)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--prefill_ar_len: %u, wanted 2 to %u (less than the context length)",
                       o->prefill_ar_len, context - 1);
    if (hybrid)
        t->kinds[t->n_kinds++] = (sw_graph_options){.name = "prefill_forward", .ar_len = o->prefill_ar_len};
    t->kinds[t->n_kinds++] = (sw_graph_options){.name = "kv_forward", .ar_len = 1};
    return SW_OK;
}

sw_code sw_target_check_vocab(const sw_target *t, uint32_t vocab, sw_error *err) {
    if (t->top_k <= vocab) return SW_OK;
    return SW_FAIL(err, SW_INVALID_ARGUMENT,
                   "--logits: topk:%u, wanted at most topk:%u: the model has %u tokens", t->top_k, vocab,
                   vocab);
}

void sw_target_choose_forms(sw_target *t, const sw_options *o, const sw_hparams *hparams) {
    for (uint32_t i = 0; i < t->n_kinds; i++) {
        sw_graph_options *kind = &t->kinds[i];
        if (t->tuning == NULL && !sw_attention_form_from_name(o->attention, &kind->attention))
            kind->attention = sw_attention_form_auto(hparams, kind->ar_len, t->context_len, t->vtcm_mb);
        kind->head = sw_head_form_auto(hparams->vocab, t->top_k, t->vtcm_mb);
    }
}
