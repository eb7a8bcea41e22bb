/* find_model.c: which checkpoint the user means, and where setup has put things. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "soc/soc.h"

/* Models by llama.py's names: name, file that setup fetches, layers, hidden size. */
static const struct known_model {
    const char *name, *file;
    uint32_t n_layers, hidden;
} known_models[] = {
    {"smollm2_135m", "SmolLM2-135M-Instruct.Q4_1.gguf", 30, 576},
};

bool sw_cli_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

sw_code sw_cli_external_folders(const char *below, sw_arena *arena, const char *const **out, sw_error *err) {
    const char **list = sw_arena_array(arena, 4, sizeof *list);
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    size_t count = 0;
    if (list == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    list[count++] = sw_arena_printf(arena, "external/%s", below);
    if (n > 0) { /* build/release/spillway: two folders up */
        program[n] = '\0';
        for (int up = 0; up < 3; up++) {
            char *slash = strrchr(program, '/');
            if (slash != NULL) *slash = '\0';
        }
        list[count++] = sw_arena_printf(arena, "%s/external/%s", program, below);
    }
    for (size_t i = 0; i < count; i++)
        if (list[i] == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    *out = (const char *const *)list;
    return SW_OK;
}

static const struct known_model *find_known(const char *name, sw_error *err) {
    char list[256] = "";
    for (size_t i = 0; i < sizeof known_models / sizeof *known_models; i++) {
        if (strcmp(known_models[i].name, name) == 0) return &known_models[i];
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", known_models[i].name);
    }
    sw_fail(err, SW_INVALID_ARGUMENT,
            "--decoder_model: `%s` is not known, wanted one of: %s; another Llama-family model can be given "
            "with --model FILE",
            name, list);
    return NULL;
}

sw_code sw_cli_find_model(const sw_options *options, sw_arena *arena, const char **out, sw_error *err) {
    if (options->model != NULL) {
        if (sw_soc_find(options->model) != NULL && access(options->model, F_OK) != 0)
            return SW_FAIL(
                err, SW_INVALID_ARGUMENT,
                "--model: `%s` is a SoC: say --soc_model %s for it, and give the checkpoint to --model",
                options->model, options->model);
        if (sw_cli_is_folder(options->model))
            return SW_FAIL(err, SW_UNSUPPORTED,
                           "%s: is a folder; this build reads checkpoints from GGUF files", options->model);
        *out = options->model;
        return SW_OK;
    }
    if (options->decoder_model == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "no model given: wanted --model FILE or --decoder_model NAME");
    const struct known_model *known = find_known(options->decoder_model, err);
    if (known == NULL) return SW_INVALID_ARGUMENT;
    const char *const *folders;
    SW_TRY(sw_cli_external_folders("models", arena, &folders, err));
    for (; *folders != NULL; folders++) {
        const char *path = sw_path_join(arena, *folders, known->file);
        if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
        *out = path;
        if (access(path, F_OK) == 0) return SW_OK;
    }
    return SW_FAIL(err, SW_NOT_FOUND,
                   "%s: `%s` isn't there; `make setup` fetches it, or give another with --model FILE",
                   options->decoder_model, *out);
}

sw_code sw_cli_check_model(const sw_options *options, const sw_model *model, const char *path,
                           sw_error *err) {
    if (options->decoder_model == NULL) return SW_OK;
    const struct known_model *known = find_known(options->decoder_model, err);
    if (known == NULL) return SW_INVALID_ARGUMENT;
    if (model->hparams.n_layers != known->n_layers || model->hparams.hidden != known->hidden)
        return SW_FAIL(err, SW_INVALID_ARGUMENT,
                       "%s: has %u layers of width %u, but --decoder_model %s has %u of %u", path,
                       model->hparams.n_layers, model->hparams.hidden, known->name, known->n_layers,
                       known->hidden);
    return SW_OK;
}
