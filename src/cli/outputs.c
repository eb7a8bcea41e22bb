/* outputs.c: the files that a command will write, looked at before any work: each can be made, none of them
 * is what the command reads, and none is a part of a bundle, which would be lost with it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/cli.h"

typedef struct named_file {
    const char *option, *path; /* path NULL: not given */
} named_file;

enum { N_OUTPUTS = 7, MOST_INPUTS = 8 + SW_MAX_PROMPTS };

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    if (strcmp(a, b) == 0) return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool builds(const sw_options *o) {
    return o->command == SW_CMD_COMPILE || o->command == SW_CMD_LLAMA;
}

static uint32_t list_inputs(const sw_options *o, named_file out[MOST_INPUTS]) {
    const named_file all[] = {{"model", o->model},   {"calib_text", o->calib_text},
                              {"text", o->text},     {"tasks", o->tasks},
                              {"quant", o->quant},   {"system_prompt_file", o->system_prompt_file},
                              {"resume", o->resume}, {NULL, o->operand}};
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].path != NULL) out[n++] = all[i];
    for (uint32_t i = 0; i < o->n_prompts; i++)
        if (o->prompt_is_file[i]) out[n++] = (named_file){"prompt_file", o->prompts[i]};
    return n;
}

static sw_code check_inputs(const sw_options *o, const named_file *output, sw_error *err) {
    named_file inputs[MOST_INPUTS];
    uint32_t n = list_inputs(o, inputs);
    for (uint32_t i = 0; i < n; i++)
        if (same_file(output->path, inputs[i].path))
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: %s is what %s%s reads: wanted another file",
                           output->option, output->path, inputs[i].option != NULL ? "--" : "the command",
                           inputs[i].option != NULL ? inputs[i].option : "");
    return SW_OK;
}

/* The manifest, or what it names. */
static sw_code check_bundle(const sw_options *o, const named_file *output, sw_arena *arena, sw_error *err) {
    const char *slash = strrchr(output->path, '/'), *name = slash != NULL ? slash + 1 : output->path;
    const char *folder = ".";
    if (slash != NULL) folder = sw_arena_strndup(arena, output->path, (size_t)(slash - output->path) + 1);
    const char *path = folder != NULL ? sw_path_join(arena, folder, SW_MANIFEST_NAME) : NULL;
    if (path == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    char *text;
    size_t size;
    sw_manifest m = {0};
    bool ours = sw_file_read(path, SW_MANIFEST_MAX_BYTES, arena, &text, &size, NULL) == SW_OK &&
                sw_manifest_read(&m, arena, path, text, size, NULL) == SW_OK;
    bool is_part = strcmp(name, SW_MANIFEST_NAME) == 0 &&
                   (ours || (builds(o) && (same_file(folder, o->artifact) ||
                                           strncmp(output->path, o->artifact, strlen(o->artifact)) == 0)));
    for (uint32_t i = 0; ours && i < m.n_parts; i++) is_part = is_part || strcmp(name, m.parts[i].path) == 0;
    if (!is_part) return SW_OK;
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: %s is a part of a bundle: wanted another file",
                   output->option, output->path);
}

/* Below a bundle's folder that a compile will make, all can be made. */
static bool is_in_new_artifact(const sw_options *o, const char *path) {
    size_t n = strlen(o->artifact);
    struct stat st;
    return builds(o) && strncmp(path, o->artifact, n) == 0 &&
           (path[n] == '/' || (n > 0 && path[n - 1] == '/')) &&
           strchr(path + n + (path[n] == '/'), '/') == NULL && stat(o->artifact, &st) != 0 && errno == ENOENT;
}

static sw_code check_one(const sw_options *o, const named_file *output, sw_arena *arena, sw_error *err) {
    sw_file_writer w;
    if (output->path[strlen(output->path) - 1] == '/' || (builds(o) && same_file(output->path, o->artifact)))
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s: %s is a folder's name: wanted a file's",
                       output->option, output->path);
    SW_TRY(check_inputs(o, output, err));
    SW_TRY(check_bundle(o, output, arena, err));
    if (is_in_new_artifact(o, output->path)) return SW_OK;
    SW_TRY(sw_file_writer_open(&w, output->path, err));
    sw_file_writer_discard(&w);
    return SW_OK;
}

sw_code sw_cli_check_outputs(const sw_options *o, sw_error *err) {
    const named_file outputs[N_OUTPUTS] = {
        {"report", o->report}, {"trace", o->trace},    {"stats", o->stats},     {"out", o->out},
        {"plot", o->plot},     {"jobs", o->grid.jobs}, {"slurm", o->grid.slurm}};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_code code = SW_OK;
    for (uint32_t i = 0; i < N_OUTPUTS && code == SW_OK; i++) {
        if (outputs[i].path == NULL) continue;
        for (uint32_t k = 0; k < i && code == SW_OK; k++)
            if (outputs[k].path != NULL && same_file(outputs[k].path, outputs[i].path))
                code = SW_FAIL(err, SW_INVALID_ARGUMENT, "--%s and --%s: both are %s: wanted two files",
                               outputs[k].option, outputs[i].option, outputs[i].path);
        if (code == SW_OK) code = check_one(o, &outputs[i], &arena, err);
    }
    sw_arena_free(&arena);
    return code;
}
