/* profile.c: reads a collector's events and their sub events. Every run of a graph has the same events in the
 * same order, so that each is found where it was in the run before. */
#include "qnn/profile.h"

#include <stdlib.h>
#include <string.h>

#include "qnn/error.h"

static const struct {
    uint32_t type;
    const char *name;
} types[] = {
    {400, "whole run"},
    {405, "waiting in the queue"},
    {406, "before the accelerator"},
    {407, "on the device"},
    {408, "after the accelerator"},
    {3001, "RPC, host (to the DSP and back)"},
    {3002, "RPC, HTP (on the DSP's side)"},
    {3003, "accelerator (HVX and HMX)"},
    {3004, "accelerator (HVX and HMX)"},
    {3005, "accelerator, other work"},
    {3006, "giving the HTP up to others"},
    {3007, "waiting for the HTP"},
    {3008, "taking the HTP back"},
    {3009, "times the HTP was given up"},
    {3010, "getting VTCM"},
    {3011, "powering up"},
    {3012, "waiting for the accelerator"},
    {6001, "accelerator, critical path"},
    {8001, "HVX threads"},
};

const char *sw_profile_type_name(uint32_t type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return types[i].name;
    return NULL;
}

const char *sw_profile_unit_name(uint32_t unit) {
    return unit == QNN_PROFILE_UNIT_MICROSEC ? "us"
           : unit == QNN_PROFILE_UNIT_BYTES  ? "bytes"
           : unit == QNN_PROFILE_UNIT_CYCLES ? "cycles"
                                             : "";
}

static bool is_same(const sw_profile_event *e, const QnnProfile_EventData_t *data, const char *name,
                    uint32_t parent) {
    return e->type == data->type && e->parent == parent && strcmp(e->name, name) == 0;
}

/* The event's place, a new one where it was never seen; UINT32_MAX without memory. */
static uint32_t find_event(sw_profile *p, const QnnProfile_EventData_t *data, uint32_t parent) {
    const char *name = data->identifier != NULL ? data->identifier : "";
    for (uint32_t k = 0; k < p->n_events; k++) {
        uint32_t i = (p->next + k) % p->n_events;
        if (is_same(&p->events[i], data, name, parent)) return i;
    }
    if (p->n_events == p->capacity) {
        uint32_t capacity = p->capacity == 0 ? 64 : 2 * p->capacity;
        sw_profile_event *bigger = realloc(p->events, capacity * sizeof *bigger);
        if (bigger == NULL) return UINT32_MAX;
        p->events = bigger;
        p->capacity = capacity;
    }
    name = sw_arena_strdup(&p->arena, name);
    if (name == NULL) return UINT32_MAX;
    p->events[p->n_events] =
        (sw_profile_event){.type = data->type, .unit = data->unit, .parent = parent, .name = name};
    return p->n_events++;
}

static sw_code add_list(sw_profile *p, const QnnCore_t *core, const uint64_t *ids, uint32_t n,
                        uint32_t parent, sw_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        QnnProfile_EventData_t data = {0};
        const uint64_t *parts = NULL;
        uint32_t n_parts = 0;
        Qnn_ErrorHandle_t e = core->profileGetEventData(ids[i], &data);
        if (e != 0) return sw_qnn_fail(err, e, "reading an event of the profile");
        uint32_t at = find_event(p, &data, parent);
        if (at == UINT32_MAX) return SW_FAIL(err, SW_NO_MEMORY, "no memory for the profile");
        p->events[at].sum += data.value;
        p->events[at].count++;
        p->next = at + 1;
        if (parent != UINT32_MAX) continue; /* two levels are all there are */
        e = core->profileGetSubEvents(ids[i], &parts, &n_parts);
        if (e != 0) return sw_qnn_fail(err, e, "reading the parts of an event of the profile");
        if (parts != NULL) SW_TRY(add_list(p, core, parts, n_parts, at, err));
    }
    return SW_OK;
}

sw_code sw_profile_add(sw_profile *profile, const sw_qnn *qnn, Qnn_Handle_t collector, sw_error *err) {
    const QnnCore_t *core = &qnn->library->htp->core;
    const uint64_t *ids = NULL;
    uint32_t n = 0;
    sw_qnn_log_reset();
    Qnn_ErrorHandle_t e = core->profileGetEvents(collector, &ids, &n);
    if (e != 0) return sw_qnn_fail(err, e, "reading the profile");
    profile->n_runs++;
    profile->next = 0;
    return ids != NULL ? add_list(profile, core, ids, n, UINT32_MAX, err) : SW_OK;
}

void sw_profile_free(sw_profile *profile) {
    free(profile->events);
    sw_arena_free(&profile->arena);
    *profile = (sw_profile){0};
}
