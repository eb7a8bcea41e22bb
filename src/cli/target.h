/* target.h: the SoC that is compiled for. */
#ifndef SW_CLI_TARGET_H
#define SW_CLI_TARGET_H

#include "base/arena.h"
#include "cli/options.h"
#include "graph/decoder.h"
#include "quant/quant.h"
#include "soc/soc.h"

/* By --soc_model, or --soc_id; one that the table lacks needs --soc_id, --htp_arch and --vtcm_mb. In the
 * arena, or static. Errors: SW_INVALID_ARGUMENT: none given, one that is not known, or a value that
 * contradicts the table. */
sw_code sw_cli_target(const sw_options *options, sw_arena *arena, const sw_soc **out,
                      sw_error *err) SW_MUST_CHECK;

/* What the SoC can't do: refused, or a warning where the result still runs. slc: some graph wants the
 * allocator. Errors: SW_UNSUPPORTED. */
sw_code sw_cli_check_target(const sw_soc *soc, const sw_recipe *recipe, uint32_t n_kinds, bool slc,
                            sw_error *err) SW_MUST_CHECK;

/* Can that many graphs of one context share their weights there? */
bool sw_cli_shares_weights(const sw_soc *soc, uint32_t n_kinds);

enum { SW_DEFAULT_OPT_LEVEL = 3 };

typedef struct sw_target {
    const sw_soc *soc;
    sw_recipe recipe;
    sw_graph_options kinds[SW_MAX_KINDS]; /* of graphs that every shard has */
    uint32_t n_kinds, context_len, vtcm_mb;
    uint32_t top_k; /* of the head; 0: all logits */
    uint32_t opt_level;
    const char *tuning; /* the kinds have their forms of attention: what was tried, see tune.h; or NULL */
} sw_target;

/* What can be said of the options together, before any file but a recipe's is touched. What the recipe holds
 * lives in the arena. Errors: SW_INVALID_ARGUMENT, SW_UNSUPPORTED, with option, value and what is legal. */
sw_code sw_target_read(sw_target *target, const sw_options *options, sw_arena *arena,
                       sw_error *err) SW_MUST_CHECK;

/* Has the vocabulary as many tokens as the head hands out? SW_INVALID_ARGUMENT. */
sw_code sw_target_check_vocab(const sw_target *target, uint32_t vocab, sw_error *err) SW_MUST_CHECK;

/* The forms of the graphs, once the model is known. */
void sw_target_choose_forms(sw_target *target, const sw_options *options, const sw_hparams *hparams);

#endif
