/* prompt_files.c: prompts that are in files: byte for byte, with the last newline if there is one. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

enum { MAX_PROMPT_BYTES = 64 << 20 };

static sw_code read_file(const char **text, sw_arena *arena, sw_error *err) {
    const char *path = *text;
    char *data;
    size_t size;
    SW_TRY(sw_file_read(path, MAX_PROMPT_BYTES, arena, &data, &size, err));
    if (strlen(data) != size)
        return SW_FAIL(err, SW_BAD_DATA, "%s: byte %zu is 0: wanted a text file", path, strlen(data));
    *text = data;
    return SW_OK;
}

sw_code sw_cli_read_prompt_files(sw_options *options, sw_arena *arena, sw_error *err) {
    for (uint32_t i = 0; i < options->n_prompts; i++) {
        if (!options->prompt_is_file[i]) continue;
        SW_TRY(read_file(&options->prompts[i], arena, err));
        options->prompt_is_file[i] = false;
    }
    if (options->system_prompt_file == NULL) return SW_OK;
    if (options->system_prompt != NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "--system_prompt and --system_prompt_file: wanted one of them");
    options->system_prompt = options->system_prompt_file;
    return read_file(&options->system_prompt, arena, err);
}
