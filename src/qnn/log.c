/* log.c: the library's log callback. A call may bring several lines, with or without a newline at the end;
 * each is shown by our level and searched at every level. */
#include "qnn/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sw_qnn_capture captured = {.slc_allocate = -1};
static _Atomic sw_log_level result_level = SW_LOG_INFO;
static unsigned ddr_seen; /* bit i: line i of the summary */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Lines that are shown at another level than the library's, and are never a reason of a failure. */
static const struct {
    const char *text;
    sw_log_level shown;
} known[] = {
    /* What every good run prints as a warning or an error. */
    {"unexpected GraphHtpSettings option 66", SW_LOG_DEBUG},
    {"No op packages found for architecture", SW_LOG_DEBUG},
    {"m_CFBCallbackInfoObj is not initialized", SW_LOG_DEBUG},
    {"Sanitizing the value for hvx_threads", SW_LOG_DEBUG},
    {"Initializing HtpProvider", SW_LOG_DEBUG},
    {"Performance Estimates unsupported", SW_LOG_DEBUG},
    {"Cost Based unsupported", SW_LOG_DEBUG},
    {"Specified config SOC, ignoring on real target", SW_LOG_DEBUG}, /* a device knows its SoC */
    {"Arch 68 set by custom config is different", SW_LOG_DEBUG},     /* by its own default: we pass none */
    /* A refused op: the tables of what would be legal, and the call's name. */
    {"Requested I/O datatype set", SW_LOG_VERBOSE},
    {"Supported I/O datatype sets", SW_LOG_VERBOSE},
    {"Please refer to the 'HTP Backend Op Definition Supplement'", SW_LOG_VERBOSE},
    {"QnnBackend_validateOpConfig failed", SW_LOG_VERBOSE},
    {"Failed to validate op", SW_LOG_VERBOSE},
    /* Results. */
    {"DDR bandwidth summary", SW_LOG_INFO},
    {"spill_bytes=", SW_LOG_INFO},
    {"fill_bytes=", SW_LOG_INFO},
    {"write_total_bytes=", SW_LOG_INFO},
    {"read_total_bytes=", SW_LOG_INFO},
    {"slc_allocate = ", SW_LOG_INFO},
    {"no allocation performed", SW_LOG_INFO},
};

uint32_t sw_qnn_log_level(void) {
    sw_log_level level = sw_log_get_level();
    return level >= SW_LOG_DEBUG ? QNN_LOG_DEBUG : level == SW_LOG_VERBOSE ? QNN_LOG_VERBOSE : QNN_LOG_INFO;
}

static sw_log_level our_level(uint32_t level, const char *line, bool first) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(line, known[i].text) != NULL)
            return known[i].shown == SW_LOG_INFO ? result_level : known[i].shown;
    if (level == QNN_LOG_ERROR) return first ? SW_LOG_ERROR : SW_LOG_VERBOSE; /* the rest are tables */
    /* The interface's warnings have a tag. Those without one are the optimizer's remarks, one or more an op.
     */
    if (level == QNN_LOG_WARN) return strstr(line, "<W>") != NULL ? SW_LOG_WARN : SW_LOG_VERBOSE;
    return level <= QNN_LOG_VERBOSE ? SW_LOG_VERBOSE : SW_LOG_DEBUG;
}

/* The DDR summary: its header, then four lines, in calls of their own. */
static void search_ddr(const char *line) {
    static const char *const keys[] = {
        "spill_bytes=", "fill_bytes=", "write_total_bytes=", "read_total_bytes="};
    sw_qnn_ddr *d = &captured.ddr;
    uint64_t *values[] = {&d->spill, &d->fill, &d->write, &d->read};
    if (strstr(line, "DDR bandwidth summary") != NULL) {
        *d = (sw_qnn_ddr){0};
        ddr_seen = 0;
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        const char *at = strstr(line, keys[i]);
        if (at == NULL) continue;
        char *end;
        unsigned long long value = strtoull(at + strlen(keys[i]), &end, 10);
        if (end == at + strlen(keys[i])) return;
        *values[i] = value;
        ddr_seen |= 1u << i;
        d->known = ddr_seen == 15;
        return;
    }
}

/* An op that can't be cut small enough, in lines of two forms: `Operator named ...` and `"op" generated:
 * Operator named ...`. */
static void search_vtcm(const char *line) {
    static const char wanted[] = "not sufficiently tiled to fit in TCM. Requires ";
    const char *at = strstr(line, wanted), *generated = strstr(line, "\" generated: ");
    if (at == NULL) return;
    unsigned long long bytes = strtoull(at + strlen(wanted), NULL, 10);
    if (bytes > captured.vtcm_wanted) {
        captured.vtcm_wanted = bytes;
        captured.vtcm_op[0] = '\0';
    }
    const char *name = strchr(line, '"');
    if (generated == NULL || name == NULL || name >= generated || bytes < captured.vtcm_wanted) return;
    snprintf(captured.vtcm_op, sizeof captured.vtcm_op, "%.*s", (int)(generated - name - 1), name + 1);
}

/* The first lines stay: the cause comes before what follows from it. */
static void add_reason(const char *line) {
    char cut[SW_QNN_REASON_BYTES];
    static const char tag[] = " <E> ";
    if (strncmp(line, tag, strlen(tag)) == 0) line += strlen(tag);
    snprintf(cut, sizeof cut, "%.*s", SW_QNN_REASON_BYTES - 1, line);
    for (uint32_t i = 0; i < captured.n_reasons; i++)
        if (strcmp(captured.reasons[i], cut) == 0) return;
    if (captured.n_reasons < SW_QNN_MAX_REASONS)
        memcpy(captured.reasons[captured.n_reasons++], cut, sizeof cut);
}

static void take_line(uint32_t level, const char *line, bool first) {
    sw_log_level shown = our_level(level, line, first);
    pthread_mutex_lock(&lock);
    search_ddr(line);
    if (level == QNN_LOG_ERROR) search_vtcm(line);
    const char *slc = strstr(line, "slc_allocate = ");
    if (slc != NULL) captured.slc_allocate = atoi(slc + strlen("slc_allocate = "));
    if (strstr(line, "no allocation performed: no copies") != NULL) captured.slc_idle = true;
    if (level == QNN_LOG_ERROR && strstr(line, "4003") != NULL) captured.n_4003++;
    const sw_qnn_hint *hint = level <= QNN_LOG_WARN ? sw_qnn_hint_find(line) : NULL;
    if (captured.hint == NULL) captured.hint = hint;
    if (shown == SW_LOG_ERROR) add_reason(line);
    pthread_mutex_unlock(&lock);
    if (shown == SW_LOG_ERROR || (shown == SW_LOG_WARN && hint != NULL)) /* it tells of a failure */
        sw_log_below("[QNN] %s", line);
    else
        sw_log(shown, "[QNN] %s", line);
}

void sw_qnn_log_callback(const char *format, uint32_t level, uint64_t timestamp, va_list args) {
    (void)timestamp;
    char small[1024], *text = small;
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    if (length >= (int)sizeof small && (text = malloc((size_t)length + 1)) != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    if (text == NULL) text = small; /* without memory the line is cut */
    if (length < 0) small[0] = '\0';

    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        if (*line != '\0') take_line(level, line, line == text);
    }
    if (text != small) free(text);
}

void sw_qnn_log_set_result_level(sw_log_level level) {
    result_level = level;
}

void sw_qnn_log_reset(void) {
    pthread_mutex_lock(&lock);
    captured = (sw_qnn_capture){.slc_allocate = -1};
    ddr_seen = 0;
    pthread_mutex_unlock(&lock);
}

void sw_qnn_log_captured(sw_qnn_capture *out) {
    pthread_mutex_lock(&lock);
    *out = captured;
    pthread_mutex_unlock(&lock);
}
