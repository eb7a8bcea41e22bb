/* gguf_seeds.c FOLDER: the recipes and the tiny model of tests/model as files, the first inputs of gguf_fuzz.
 */
#include <stdio.h>

#include "tiny_model.h"

static int write_seed(const char *folder, const char *name, const bytes *b) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "wb") : NULL;
    int failed = file == NULL || fwrite(b->data, 1, b->size, file) != b->size;
    if (file != NULL && fclose(file) != 0) failed = 1;
    if (failed) fprintf(stderr, "error: %s: can't write\n", path);
    return failed;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int failed = 0;
    for (size_t i = 0; i < RECIPE_COUNT && !failed; i++) {
        bytes b;
        make_recipe(&recipes[i], &b);
        if (b.size < 65536) failed = write_seed(argv[1], recipes[i].id, &b); /* long names teach it nothing */
        free(b.data);
    }
    tiny_model model;
    tiny_init(&model);
    bytes b;
    tiny_build(&model, &b);
    failed |= write_seed(argv[1], "tiny", &b);
    free(b.data);
    return failed;
}
