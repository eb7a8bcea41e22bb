/* hint.h: what single lines of Qualcomm's log tell about a failure. */
#ifndef SW_QNN_HINT_H
#define SW_QNN_HINT_H

#include <stddef.h>

typedef struct sw_qnn_hint {
    const char *text, *reason, *next;
} sw_qnn_hint;

extern const sw_qnn_hint sw_qnn_hints[]; /* hints.inc's rows */
extern const size_t sw_n_qnn_hints;

/* The row whose text stands in the line; NULL: none. */
const sw_qnn_hint *sw_qnn_hint_find(const char *line);

#endif
