/* Contexts over a stand-in for the library that writes down every call: what is configured, the same way each
 * time; what is undone, in which order, after a failure of any step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "qnn/clock.h"
#include "qnn/context.h"

static char calls[2048];   /* one word a call */
static int fail_at, count; /* the call that fails, from 1; 0: none */
static int slc_word;       /* what the stand-in's compiler says; -1: nothing */
static uint64_t binary_size, binary_written;
static unsigned binary_us; /* that taking it lasts */

static uint64_t record(const char *format, ...) SW_PRINTF(1, 2);
static uint64_t record(const char *format, ...) {
    size_t used = strlen(calls);
    va_list args;
    va_start(args, format);
    vsnprintf(calls + used, sizeof calls - used, format, args);
    va_end(args);
    strncat(calls, " ", sizeof calls - strlen(calls) - 1);
    return ++count == fail_at ? 1100 : 0;
}

static Qnn_Handle_t handle(uintptr_t n) {
    return (Qnn_Handle_t)n;
}

static uint64_t log_create(QnnLog_Callback_t *callback, uint32_t level, Qnn_Handle_t *log) {
    assert_non_null(callback);
    uint64_t e = record("log:%u", level);
    if (e == 0) *log = handle(1);
    return e;
}
static uint64_t log_level(Qnn_Handle_t log, uint32_t level) {
    assert_ptr_equal(log, handle(1));
    record("level:%u", level);
    return 0;
}
static uint64_t log_free(Qnn_Handle_t log) {
    assert_ptr_equal(log, handle(1));
    return record("~log");
}
static uint64_t backend_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *backend) {
    assert_ptr_equal(log, handle(1));
    assert_null(config);
    uint64_t e = record("backend");
    if (e == 0) *backend = handle(2);
    return e;
}
static uint64_t backend_free(Qnn_Handle_t backend) {
    assert_ptr_equal(backend, handle(2));
    return record("~backend");
}
static uint64_t device_create(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *device) {
    assert_ptr_equal(log, handle(1));
    assert_int_equal(config[0]->option, 0);
    assert_null(config[1]);
    uint32_t words[4];
    memcpy(words, config[0]->customConfig, sizeof words);
    uint64_t e = record("device{%u,%u,%u,%u}", words[0], words[1], words[2], words[3]);
    if (e == 0) *device = handle(3);
    return e;
}
static uint64_t device_free(Qnn_Handle_t device) {
    assert_ptr_equal(device, handle(3));
    return record("~device");
}
static uint64_t context_create(Qnn_Handle_t backend, Qnn_Handle_t device, const Qnn_Config_t **config,
                               Qnn_Handle_t *context) {
    assert_ptr_equal(backend, handle(2));
    assert_ptr_equal(device, handle(3));
    assert_null(config[1]);
    const unsigned char *bytes = config[0]->customConfig;
    uint32_t option;
    memcpy(&option, bytes, sizeof option);
    uint64_t e = record("context{%u,%u}", option, bytes[8]);
    if (e == 0) *context = handle(4);
    return e;
}
static uint64_t context_free(Qnn_Handle_t context, Qnn_Handle_t profile) {
    assert_ptr_equal(context, handle(4));
    assert_null(profile);
    return record("~context");
}
static void say(const char *format, ...) SW_PRINTF(1, 2);
static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_qnn_log_callback(format, QNN_LOG_VERBOSE, 0, args);
    va_end(args);
}
static uint64_t graph_create(Qnn_Handle_t context, const char *name, const Qnn_Config_t **config,
                             Qnn_Handle_t *graph) {
    assert_ptr_equal(context, handle(4));
    char text[200] = "";
    for (; *config != NULL; config++) {
        const unsigned char *bytes = (*config)->customConfig;
        uint32_t option, first;
        float second;
        memcpy(&option, bytes, 4);
        memcpy(&first, bytes + 8, 4);
        memcpy(&second, bytes + 12, 4);
        for (int i = 16; i < 56; i++) assert_int_equal(bytes[i], 0);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "{%u,%u,%g}", option, first, (double)second);
    }
    if (slc_word >= 0) say("Prepare: Graph %s with init graph option: slc_allocate = %d", name, slc_word);
    uint64_t e = record("graph-%s%s", name, text);
    if (e == 0) *graph = handle(5);
    return e;
}
static uint64_t get_size(Qnn_Handle_t context, uint64_t *size) {
    assert_ptr_equal(context, handle(4));
    *size = binary_size;
    return record("size");
}
static uint64_t get_binary(Qnn_Handle_t context, void *data, uint64_t size, uint64_t *written) {
    assert_ptr_equal(context, handle(4));
    memset(data, 7, size);
    usleep(binary_us);
    *written = binary_written;
    return record("binary");
}

static const QnnInterface_t interface = {.core = {.logCreate = log_create,
                                                  .logSetLogLevel = log_level,
                                                  .logFree = log_free,
                                                  .backendCreate = backend_create,
                                                  .backendFree = backend_free,
                                                  .deviceCreate = device_create,
                                                  .deviceFree = device_free,
                                                  .contextCreate = context_create,
                                                  .contextFree = context_free,
                                                  .graphCreate = graph_create,
                                                  .contextGetBinarySize = get_size,
                                                  .contextGetBinary = get_binary}};
static const sw_qnn_library library = {.htp = &interface};
static sw_error err;
static sw_qnn qnn;
static sw_qnn_context context;

static int reset(void **state) {
    (void)state;
    calls[0] = '\0';
    fail_at = count = 0;
    slc_word = -1;
    binary_size = binary_written = 100;
    binary_us = 0;
    return 0;
}

static sw_code open_all(bool sharing) {
    SW_TRY(sw_qnn_open(&qnn, &library, sw_soc_find("SM8750"), &err));
    return sw_qnn_context_create(&context, &qnn, sharing, &err);
}

static void close_all(void) {
    sw_qnn_context_free(&context);
    sw_qnn_close(&qnn);
}

/* What is made again is made the same way: here weight sharing must not get lost. */
static void every_creation_has_the_same_configuration(void **state) {
    (void)state;
    char first[sizeof calls];
    for (int turn = 0; turn < 3; turn++) {
        calls[0] = '\0';
        assert_int_equal(open_all(true), SW_OK);
        close_all();
        if (turn == 0) memcpy(first, calls, sizeof first);
        assert_string_equal(calls, first);
    }
    assert_string_equal(first,
                        "log:3 backend device{0,69,69,0} context{1,1} ~context ~device ~backend ~log ");
    calls[0] = '\0';
    assert_int_equal(open_all(false), SW_OK);
    close_all();
    assert_non_null(strstr(calls, "context{1,0}"));
}

static void a_failed_step_leaves_nothing_open(void **state) {
    (void)state;
    static const char *const want[] = {"log:3 ", "log:3 backend ~log ",
                                       "log:3 backend device{0,69,69,0} ~backend ~log ",
                                       "log:3 backend device{0,69,69,0} context{1,1} ~device ~backend ~log "};
    static const char *const named[] = {"making a logger for SM8750", "making a backend for SM8750",
                                        "making a device for SM8750",
                                        "making a context with weight sharing on"};
    for (int i = 0; i < 4; i++) {
        reset(NULL);
        fail_at = i + 1;
        assert_int_equal(open_all(true), SW_LIBRARY);
        assert_ptr_equal(strstr(err.message, named[i]), err.message);
        close_all(); /* no-op but for the last */
        assert_string_equal(calls, want[i]);
    }
}

static void graph_options_are_all_sent(void **state) {
    (void)state;
    static const struct {
        sw_qnn_graph_options options;
        const char *text;
    } cases[] = {{{.slc_allocator = true, .vtcm_mb = 2, .opt_level = 3}, "graph-g{1,3,3}{1,7,1}{3,2,0} "},
                 {{.slc_allocator = false, .vtcm_mb = 0, .opt_level = 1}, "graph-g{1,3,1}{1,7,0}{3,8,0} "}};
    assert_int_equal(open_all(false), SW_OK);
    for (size_t i = 0; i < 2; i++) {
        calls[0] = '\0';
        sw_qnn_graph graph;
        slc_word = cases[i].options.slc_allocator;
        assert_int_equal(sw_qnn_graph_create(&context, "g", &cases[i].options, &graph, &err), SW_OK);
        assert_non_null(strstr(calls, cases[i].text));
        /* The compiler's word for SLC is read at the verbose level, which is put back. */
        assert_ptr_equal(strstr(calls, "level:4 "), calls);
        assert_string_equal(calls + strlen(calls) - strlen(" level:3 "), " level:3 ");
        assert_int_equal(graph.slc_allocate, slc_word);
        assert_ptr_equal(graph.handle, handle(5));
    }
    close_all();
}

static void another_slc_setting_than_asked_for_is_an_error(void **state) {
    (void)state;
    assert_int_equal(open_all(false), SW_OK);
    sw_qnn_graph graph;
    sw_qnn_graph_options on = {.slc_allocator = true, .opt_level = 3};
    slc_word = 0;
    assert_int_equal(sw_qnn_graph_create(&context, "g", &on, &graph, &err), SW_LIBRARY);
    assert_string_equal(err.message, "graph g: SLC allocator asked for: on, but the compiler says 0");
    slc_word = -1; /* a library that says nothing */
    assert_int_equal(sw_qnn_graph_create(&context, "g", &on, &graph, &err), SW_OK);
    assert_int_equal(graph.slc_allocate, -1);
    close_all();
}

static void binaries_of_impossible_sizes_are_refused(void **state) {
    (void)state;
    assert_int_equal(open_all(false), SW_OK);
    uint8_t data[100];
    uint64_t capacity, size;
    assert_int_equal(sw_qnn_context_binary_size(&context, &capacity, &err), SW_OK);
    assert_int_equal(capacity, sizeof data);
    binary_written = 90; /* less than asked room for is legal */
    assert_int_equal(sw_qnn_context_binary(&context, data, capacity, &size, &err), SW_OK);
    assert_int_equal(size, 90);
    assert_int_equal(data[89], 7);
    static const uint64_t wrong[] = {0, 101};
    for (size_t i = 0; i < 2; i++) {
        binary_written = wrong[i];
        assert_int_equal(sw_qnn_context_binary(&context, data, capacity, &size, &err), SW_LIBRARY);
    }
    binary_size = 0;
    assert_int_equal(sw_qnn_context_binary_size(&context, &capacity, &err), SW_LIBRARY);
    close_all();
}

/* No less than what the call slept, no more than what passed outside of it; what is not a call counts not. */
static void the_library_s_time_is_added_up(void **state) {
    (void)state;
    uint8_t data[100];
    uint64_t size;
    assert_int_equal(open_all(false), SW_OK);
    binary_us = 20000;
    for (int i = 0; i < 2; i++) {
        const double before = sw_qnn_call_seconds();
        const uint64_t start = sw_now_us();
        assert_int_equal(sw_qnn_context_binary(&context, data, sizeof data, &size, &err), SW_OK);
        const double passed = (double)(sw_now_us() - start) / 1e6, counted = sw_qnn_call_seconds() - before;
        assert_true(counted >= 0.0199 && counted <= passed + 1e-6);
    }
    const double before = sw_qnn_call_seconds();
    usleep(20000);
    assert_true(sw_qnn_call_seconds() == before);
    close_all();
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup(f, reset)
    const struct CMUnitTest tests[] = {TEST(every_creation_has_the_same_configuration),
                                       TEST(a_failed_step_leaves_nothing_open),
                                       TEST(graph_options_are_all_sent),
                                       TEST(another_slc_setting_than_asked_for_is_an_error),
                                       TEST(binaries_of_impossible_sizes_are_refused),
                                       TEST(the_library_s_time_is_added_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
