/* pte_fuzz.c: any bytes as an ExecuTorch program: what is found in it lies inside the file. A seed: what
 * tests/bundle/pte_builder.h builds, or a small .pte. */
#include <stdlib.h>

#include "bundle/pte.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sw_arena arena = SW_ARENA_EMPTY;
    sw_error err = {0};
    sw_pte pte;
    if (sw_pte_read(data, size, &arena, &pte, &err) != SW_OK) {
        if (err.code == SW_OK || err.message[0] == '\0') abort();
    } else {
        for (uint32_t i = 0; i < pte.n_binaries; i++) {
            const sw_pte_binary *b = &pte.binaries[i];
            if (b->bytes == 0 || b->offset > size || b->bytes > size - b->offset || b->methods[0] == '\0')
                abort();
        }
    }
    sw_arena_free(&arena);
    return 0;
}
