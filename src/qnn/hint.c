/* hint.c: the list of hints.inc. */
#include "qnn/hint.h"

#include <string.h>

const sw_qnn_hint sw_qnn_hints[] = {
#define SW_QNN_HINT(text, reason, next) {text, reason, next},
#include "qnn/hints.inc"
#undef SW_QNN_HINT
};
const size_t sw_n_qnn_hints = sizeof sw_qnn_hints / sizeof *sw_qnn_hints;

const sw_qnn_hint *sw_qnn_hint_find(const char *line) {
    for (size_t i = 0; i < sw_n_qnn_hints; i++)
        if (strstr(line, sw_qnn_hints[i].text) != NULL) return &sw_qnn_hints[i];
    return NULL;
}
