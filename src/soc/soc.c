/* soc.c: looks SoCs up; near names by Levenshtein's edit distance. */
#include "soc/soc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const sw_soc sw_socs[] = {
#define SW_SOC(name, id, arch, vtcm) {name, id, arch, vtcm},
#include "soc/soc.inc"
#undef SW_SOC
};
const uint32_t sw_n_socs = sizeof sw_socs / sizeof *sw_socs;

enum { MAX_NAME = 16, NEAR_NAMES = 4 };

const sw_soc *sw_soc_find(const char *name) {
    for (uint32_t i = 0; i < sw_n_socs; i++)
        if (strcasecmp(sw_socs[i].name, name) == 0) return &sw_socs[i];
    return NULL;
}

const sw_soc *sw_soc_find_id(uint32_t model_id) {
    for (uint32_t i = 0; i < sw_n_socs; i++)
        if (sw_socs[i].model_id == model_id) return &sw_socs[i];
    return NULL;
}

static char upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Insertions, deletions and exchanges that make a of b; both at most MAX_NAME long. One row of the table. */
static unsigned edit_distance(const char *a, const char *b) {
    unsigned row[MAX_NAME + 1];
    size_t n = strlen(b);
    for (unsigned j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            unsigned best = diagonal + (upper(a[i]) != upper(b[j]));
            diagonal = row[j + 1];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (diagonal + 1 < best) best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

sw_code sw_soc_get(const char *name, const sw_soc **out, sw_error *err) {
    *out = sw_soc_find(name);
    if (*out != NULL) return SW_OK;
    if (strlen(name) == 0 || strlen(name) > MAX_NAME)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "\"%.32s\" is not a SoC's name; SM8750 is one", name);

    char list[NEAR_NAMES * (MAX_NAME + 2) + 1] = "";
    const sw_soc *listed[NEAR_NAMES];
    for (unsigned n = 0; n < NEAR_NAMES; n++) { /* the nearest not yet listed; the first one in a tie */
        const sw_soc *nearest = NULL;
        unsigned best = 0;
        for (uint32_t i = 0; i < sw_n_socs; i++) {
            bool taken = false;
            for (unsigned k = 0; k < n; k++) taken |= listed[k] == &sw_socs[i];
            unsigned distance = edit_distance(name, sw_socs[i].name);
            if (taken || (nearest != NULL && distance >= best)) continue;
            nearest = &sw_socs[i];
            best = distance;
        }
        listed[n] = nearest;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", n > 0 ? ", " : "", nearest->name);
    }
    return SW_FAIL(err, SW_INVALID_ARGUMENT, "unknown SoC \"%s\"; the nearest known ones: %s", name, list);
}
