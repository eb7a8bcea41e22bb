/* random_model.c: a GGUF file in the shape of Llama-3.2-1B with random weights, for compiles of that size:
 * what they take in time and memory depends on shapes alone.
 *
 *     bench_random_model FILE [LAYERS]      16 layers unless told otherwise; 1.3 GB of Q8_0 */
#include <stdlib.h>

#include "cli/random_gguf.h"

int main(int argc, char **argv) {
    unsigned long layers = argc > 2 ? strtoul(argv[2], NULL, 10) : 16;
    if (argc < 2 || layers < 1 || layers > 64) {
        fprintf(stderr, "usage: bench_random_model FILE [LAYERS]\n");
        return 2;
    }
    const sw_hparams llama_1b = {.n_layers = (uint32_t)layers,
                                 .hidden = 2048,
                                 .n_heads = 32,
                                 .n_kv_heads = 8,
                                 .head_dim = 64,
                                 .ffn = 8192,
                                 .vocab = 128256,
                                 .context_max = 2048,
                                 .tied_embeddings = true};
    random_gguf_write(argv[1], &llama_1b);
    return 0;
}
