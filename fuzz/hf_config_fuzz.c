/* Any bytes as a config.json: refused with a sentence, or hyperparameters within their limits. */
#include <stdlib.h>

#include "base/log.h"
#include "model/hf_config.h"
#include "model/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sw_hparams h;
    sw_error err = {0};
    sw_log_set_level(SW_LOG_ERROR); /* unknown keys are warned of */
    if (sw_hf_config_parse(&h, "config.json", (const char *)data, size, &err) != SW_OK) {
        if (err.message[0] == '\0') abort();
        return 0;
    }
    if (h.n_layers < 1 || h.n_layers > SW_MODEL_MAX_LAYERS || h.hidden > SW_MODEL_MAX_WIDTH ||
        h.n_heads % h.n_kv_heads != 0 || h.head_dim % 2 != 0)
        abort();
    return 0;
}
