/* log.c: the library's log callback. A call may bring several lines, with or without a newline at the end;
 * each is shown by our level and searched at every level. */
#include "qnn/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sw_qnn_capture captured = {.slc_allocate = -1};
static unsigned ddr_seen; /* bit i: line i of the summary */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What every run of a good graph prints. Shown at the debug level only, never a reason. */
static const char *const harmless[] = {
    "unexpected GraphHtpSettings option 66",
    "No op packages found for architecture",
    "m_CFBCallbackInfoObj is not initialized",
    "Sanitizing the value for hvx_threads",
};

uint32_t sw_qnn_log_level(void) {
    sw_log_level level = sw_log_get_level();
    return level >= SW_LOG_DEBUG ? QNN_LOG_DEBUG : level == SW_LOG_VERBOSE ? QNN_LOG_VERBOSE : QNN_LOG_INFO;
}

static sw_log_level our_level(uint32_t level, const char *line) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strstr(line, harmless[i]) != NULL) return SW_LOG_DEBUG;
    switch (level) {
    case QNN_LOG_ERROR:
        return SW_LOG_ERROR;
    case QNN_LOG_WARN:
        return SW_LOG_WARN;
    case QNN_LOG_INFO:
        return SW_LOG_INFO;
    case QNN_LOG_VERBOSE:
        return SW_LOG_VERBOSE;
    default:
        return SW_LOG_DEBUG;
    }
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

static void add_reason(const char *line) {
    char cut[SW_QNN_REASON_BYTES];
    snprintf(cut, sizeof cut, "%s", line);
    for (uint32_t i = 0; i < captured.n_reasons; i++)
        if (strcmp(captured.reasons[i], cut) == 0) return;
    if (captured.n_reasons == SW_QNN_MAX_REASONS) {
        memmove(captured.reasons[0], captured.reasons[1], sizeof captured.reasons - SW_QNN_REASON_BYTES);
        captured.n_reasons--;
    }
    memcpy(captured.reasons[captured.n_reasons++], cut, sizeof cut);
}

static void take_line(uint32_t level, const char *line) {
    sw_log_level shown = our_level(level, line);
    pthread_mutex_lock(&lock);
    search_ddr(line);
    const char *slc = strstr(line, "slc_allocate = ");
    if (slc != NULL) captured.slc_allocate = atoi(slc + strlen("slc_allocate = "));
    if (level == QNN_LOG_ERROR && strstr(line, "4003") != NULL) captured.n_4003++;
    if (shown == SW_LOG_ERROR) add_reason(line);
    pthread_mutex_unlock(&lock);
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
        if (*line != '\0') take_line(level, line);
    }
    if (text != small) free(text);
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
