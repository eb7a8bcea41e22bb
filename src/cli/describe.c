/* describe.c: gathers what manifest, decoder, weights and context binaries say of a bundle. */
#include "cli/describe.h"

#include "base/log.h"
#include "cli/advise.h"
#include "cli/cli.h"

/* The binary's own words against the manifest's. */
static sw_code check_context(const sw_bundle *bundle, uint32_t shard, const sw_binary_info *info,
                             sw_error *err) {
    SW_TRY(sw_manifest_check_binary(&bundle->manifest, info->build_id, info->soc_model, info->htp_arch, err));
    for (uint32_t k = 0; k < info->n_graphs; k++)
        SW_TRY(sw_manifest_check_spill(&bundle->manifest, shard, info->graphs[k].name,
                                       info->graphs[k].spill_fill_bytes, err));
    return SW_OK;
}

sw_code sw_read_contexts(const sw_options *options, sw_bundle *bundle, const sw_context **out,
                         uint32_t *count, sw_error *err) {
    *out = NULL, *count = 0;
    uint32_t n = 0;
    while (sw_bundle_part(bundle, SW_PART_CONTEXT, n) != NULL) n++;
    if (n == 0) return SW_OK;
    sw_context *list = sw_arena_array(&bundle->arena, n, sizeof *list);
    if (list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        const sw_file_map *map;
        SW_TRY(sw_bundle_map_context(bundle, i, &map, err));
        list[i].source = (sw_binary_source){.file = map->path, .data = map->data, .bytes = map->size};
        sw_code code = sw_binary_report_read(options, &list[i].source, &bundle->arena, &list[i].info, err);
        if (code == SW_NOT_FOUND && options->qnn_lib == NULL) { /* the manifest has said the most of it */
            sw_log(SW_LOG_WARN, "the context binary is not read: %s", err->message);
            return SW_OK;
        }
        if (code != SW_OK) return code;
        if (check_context(bundle, i, &list[i].info, err) != SW_OK)
            return sw_error_prefix(err, "%s", map->path);
    }
    *out = list, *count = n;
    return SW_OK;
}

static json_t *contexts_to_json(const sw_context *contexts, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, sw_binary_report_json(&contexts[i].source, &contexts[i].info));
    return list;
}

/* The advisor's model of each graph. */
static sw_code describe_slc(const sw_options *options, sw_bundle *bundle, json_t **out, sw_error *err) {
    const sw_manifest *m = &bundle->manifest;
    sw_slc_advice *advice = sw_arena_array(&bundle->arena, m->n_graphs, sizeof *advice);
    if (advice == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    SW_TRY(sw_advise(m, &bundle->decoder, (double)options->dram_gbps, advice, err));
    *out = sw_advice_json(m, advice);
    return SW_OK;
}

sw_code sw_describe_bundle(const sw_options *options, sw_bundle *bundle, bool details, json_t **out,
                           sw_error *err) {
    char *text;
    size_t size;
    const sw_context *contexts;
    uint32_t n_contexts;
    json_t *memory = NULL, *slc = NULL;
    SW_TRY(sw_manifest_write(&bundle->manifest, &bundle->arena, &text, &size, err));
    SW_TRY(sw_read_contexts(options, bundle, &contexts, &n_contexts, err));
    SW_TRY(sw_describe_memory(options, bundle, details, &memory, err));
    sw_code code = describe_slc(options, bundle, &slc, err);
    json_t *o = json_loadb(text, size, 0, NULL);
    json_object_set_new(o, "contexts",
                        contexts != NULL ? contexts_to_json(contexts, n_contexts) : json_null());
    json_object_set_new(o, "memory", memory);
    json_object_set_new(o, "slc_model", slc);
    json_object_set_new(o, "layers", sw_describe_layers(&bundle->decoder, details));
    if (code == SW_OK && o == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    if (code == SW_OK)
        *out = o;
    else
        json_decref(o);
    return code;
}
