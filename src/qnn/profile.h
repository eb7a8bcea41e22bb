/* profile.h: the times that the library measures in a graph's runs, added up by event. */
#ifndef SW_QNN_PROFILE_H
#define SW_QNN_PROFILE_H

#include "base/arena.h"
#include "qnn/context.h"

/* One event of a run: the whole run, a call's way to the DSP and back, an op. */
typedef struct sw_profile_event {
    uint32_t type;    /* QnnProfile's or QnnHtpProfile's number */
    uint32_t unit;    /* QNN_PROFILE_UNIT_* */
    uint32_t parent;  /* index of the event that it is a part of; UINT32_MAX: of none */
    const char *name; /* the library's identifier, e.g. an op's */
    uint64_t sum, count;
} sw_profile_event;

typedef struct sw_profile {
    sw_arena arena; /* of the names */
    sw_profile_event *events;
    uint32_t n_events, capacity, next; /* next: where the next event is expected, as in the run before */
    uint64_t n_runs;
} sw_profile;

/* Adds the events that one run has left in the library's collector. Errors: SW_LIBRARY, SW_NO_MEMORY. */
sw_code sw_profile_add(sw_profile *profile, const sw_qnn *qnn, Qnn_Handle_t collector,
                       sw_error *err) SW_MUST_CHECK;
void sw_profile_free(sw_profile *profile);

/* What an event's number stands for, e.g. "RPC, host"; NULL where it has only its identifier. Static. */
const char *sw_profile_type_name(uint32_t type);

/* "us", "bytes", "cycles", "": of a unit. */
const char *sw_profile_unit_name(uint32_t unit);

#endif
