/* safetensors_fuzz.c: any bytes as a safetensors file: what opens has all its tensors inside the file, and
 * every weight can be read to its last row. A seed: any small file, such as tests/model/safetensors_test.c
 * writes. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensor(const sw_safetensors *f, const sw_st_tensor *t) {
    const uint8_t *end = f->map.data + f->map.size;
    if (t->data < f->map.data || t->data > end || t->bytes > (uint64_t)(end - t->data)) abort();
    if (sw_safetensors_find(f, t->name) != t) abort();
    sw_weight w;
    if (sw_safetensors_weight(f, t->name, &w, NULL) != SW_OK) return;
    float *row = malloc(w.cols * sizeof *row);
    if (row == NULL) abort();
    for (uint32_t r = 0; r < w.rows; r++) sw_weight_row(&w, r, row);
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    sw_safetensors f;
    sw_error err = {0};
    if (sw_safetensors_open(&f, path, &err) != SW_OK) {
        if (err.code == SW_OK || err.message[0] == '\0' || f.map.data != NULL) abort();
        return 0;
    }
    for (size_t i = 0; i < f.n_tensors; i++) read_tensor(&f, &f.tensors[i]);
    sw_safetensors_close(&f);
    return 0;
}
