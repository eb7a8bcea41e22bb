/* stats.c: what a run took, as JSON: what is printed for people, for programs. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/cli.h"

static json_t *turn_to_json(const sw_turn_stats *t) {
    return json_pack("{s:I, s:I, s:f, s:f, s:b}", "prompt_tokens", (json_int_t)t->prompt_tokens,
                     "generated_tokens", (json_int_t)t->generated_tokens, "prefill_seconds",
                     (double)t->prefill_us / 1e6, "decode_seconds", (double)t->decode_us / 1e6, "ended",
                     (int)t->ended);
}

sw_code sw_cli_write_stats(const char *path, const sw_run_stats *stats, sw_error *err) {
    json_t *turns = json_array();
    for (uint32_t i = 0; i < stats->n_turns; i++)
        json_array_append_new(turns, turn_to_json(&stats->turns[i]));
    json_t *all = json_pack("{s:s, s:s, s:f, s:I, s:o}", "tool_version", SW_VERSION, "device", stats->device,
                            "load_seconds", (double)stats->load_us / 1e6, "peak_memory_bytes",
                            (json_int_t)sw_peak_memory_bytes(), "turns", turns);
    char *text = all != NULL ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    sw_code code = text != NULL ? sw_file_replace(path, text, strlen(text), err)
                                : SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    free(text);
    json_decref(all);
    return code;
}
