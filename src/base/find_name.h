/* find_name.h: the reverse of an enum's table of names. */
#ifndef SW_BASE_FIND_NAME_H
#define SW_BASE_FIND_NAME_H

#include <stdbool.h>
#include <string.h>

/* *out = the index of name in names[count]; false where it isn't there. */
static inline bool sw_find_name(const char *const *names, unsigned count, const char *name, unsigned *out) {
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

#endif
