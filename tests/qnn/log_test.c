/* The log callback: lines however they come, what is captured, what is a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "qnn/log.h"

static void say(uint32_t level, const char *format, ...) SW_PRINTF(2, 3);
static void say(uint32_t level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    sw_qnn_log_callback(format, level, 0, args);
    va_end(args);
}

static sw_qnn_capture captured(void) {
    sw_qnn_capture c;
    sw_qnn_log_captured(&c);
    return c;
}

/* What call() writes to stderr, at most one buffer. */
static char shown[8192];
static void collect(void (*call)(void)) {
    int pipes[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipes), 0);
    fflush(stderr);
    dup2(pipes[1], STDERR_FILENO);
    close(pipes[1]);
    call();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    size_t n = 0;
    ssize_t got;
    while ((got = read(pipes[0], shown + n, sizeof shown - 1 - n)) > 0) n += (size_t)got;
    shown[n] = '\0';
    close(pipes[0]);
}

static void the_ddr_summary_needs_all_its_lines(void **state) {
    (void)state;
    sw_qnn_log_reset();
    assert_false(captured().ddr.known);
    say(QNN_LOG_INFO, "====== DDR bandwidth summary ======");
    say(QNN_LOG_INFO, "spill_bytes=%d\nfill_bytes=%d\n", 6029312, 18612224); /* several in one call */
    say(QNN_LOG_INFO, "write_total_bytes=7077888");
    assert_false(captured().ddr.known);
    say(QNN_LOG_INFO, "read_total_bytes=%llu\n", 5000000000ull); /* over 32 bits */
    sw_qnn_ddr ddr = captured().ddr;
    assert_true(ddr.known);
    assert_int_equal(ddr.spill, 6029312);
    assert_int_equal(ddr.fill, 18612224);
    assert_int_equal(ddr.write, 7077888);
    assert_true(ddr.read == 5000000000u);
    say(QNN_LOG_INFO, "====== DDR bandwidth summary ======"); /* the next one starts empty */
    assert_false(captured().ddr.known);
}

static void reasons_are_the_first_true_errors(void **state) {
    (void)state;
    sw_qnn_log_reset();
    say(QNN_LOG_ERROR, " <E> unexpected GraphHtpSettings option 66");
    say(QNN_LOG_WARN, " <W> a warning");
    say(QNN_LOG_ERROR, " <E> Unsupported input\n");
    say(QNN_LOG_ERROR, " <E> Unsupported input\n");
    say(QNN_LOG_ERROR, " <E> Requested I/O datatype set:\n   in[0]:A\n   in[1]:B\n");
    say(QNN_LOG_ERROR, "two\n   lines");
    sw_qnn_capture c = captured();
    assert_int_equal(c.n_reasons, 2);
    assert_string_equal(c.reasons[0], "Unsupported input");
    assert_string_equal(c.reasons[1], "two");
    for (int i = 0; i < 9; i++) say(QNN_LOG_ERROR, "number %d", i);
    assert_int_equal(captured().n_reasons, SW_QNN_MAX_REASONS);
    assert_string_equal(captured().reasons[SW_QNN_MAX_REASONS - 1], "number 0");
    sw_qnn_log_reset();
    assert_int_equal(captured().n_reasons, 0);
}

static void features_are_seen(void **state) {
    (void)state;
    sw_qnn_log_reset();
    assert_int_equal(captured().slc_allocate, -1);
    say(QNN_LOG_VERBOSE, " <V> Prepare: Graph kv_forward with init graph option: slc_allocate = 1");
    say(QNN_LOG_ERROR, " <E> Fail to initialize requested HTP features with err %d", 4003);
    say(QNN_LOG_INFO, " 4003 that is no error");
    say(QNN_LOG_WARN, "slc_allocator.cc:721:WARNING:no allocation performed: no copies / x");
    assert_int_equal(captured().slc_allocate, 1);
    assert_int_equal(captured().n_4003, 1);
    assert_true(captured().slc_idle);
}

static void ops_too_large_for_vtcm_are_seen(void **state) {
    (void)state;
    sw_log_set_level(SW_LOG_ERROR);
    sw_qnn_log_reset();
    assert_true(captured().vtcm_wanted == 0);
    say(QNN_LOG_ERROR, "tcm_migration.cc:2394::ERROR:Operator named q::*InputSlice (0x401800000002) not "
                       "sufficiently tiled to fit in TCM. Requires 8388608 bytes");
    assert_true(captured().vtcm_wanted == 8388608);
    assert_string_equal(captured().vtcm_op, "");
    say(QNN_LOG_ERROR, " <E> \"layer_3.q\" generated: Operator named q::*InputSlice (0x1a88000000012) not "
                       "sufficiently tiled to fit in TCM. Requires 8388608 bytes");
    assert_string_equal(captured().vtcm_op, "layer_3.q");
    say(QNN_LOG_ERROR,
        " <E> \"layer_4.q\" generated: Operator named x (0x1) not sufficiently tiled to fit in TCM. "
        "Requires 4096 bytes"); /* the largest one counts */
    assert_string_equal(captured().vtcm_op, "layer_3.q");
    say(QNN_LOG_ERROR,
        " <E> \"layer_5.q\" generated: Operator named x (0x1) not sufficiently tiled to fit in TCM. "
        "Requires 37748736 bytes");
    assert_string_equal(captured().vtcm_op, "layer_5.q");
    assert_true(captured().vtcm_wanted == 0x2400000);
    sw_log_set_level(SW_LOG_INFO);
}

static const char *ends_with; /* the sentence of a failure */

static void say_some(void) {
    say(QNN_LOG_ERROR, " <E> broken: %s", "100%% ~\xc3\xa4");
    say(QNN_LOG_WARN, " <W> one\n\n <W> two");
    say(QNN_LOG_WARN, "concat_opts.cc:201:WARNING:of one op");
    say(QNN_LOG_INFO, "per op");
    say(QNN_LOG_ERROR, "unexpected GraphHtpSettings option 66\n");
    say(QNN_LOG_INFO, "spill_bytes=1");
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    say(QNN_LOG_WARN, " <W> %s", text);
    say(QNN_LOG_ERROR, " <E> broken: %s", "100%% ~\xc3\xa4");
    say(QNN_LOG_ERROR, " <E> more");
    sw_log_end(ends_with);
}

static void lines_are_shown_word_for_word(void **state) {
    (void)state;
    sw_log_set_level(SW_LOG_INFO);
    sw_log_end(NULL); /* what other tests left */
    ends_with = "our sentence";
    collect(say_some);
    assert_ptr_equal(strstr(shown, "warning: [QNN]  <W> one\nwarning: [QNN]  <W> two\n[QNN] spill_bytes=1\n"
                                   "warning: [QNN]  <W> xxx"),
                     shown);
    static const char end[] = "\nerror: our sentence\n[QNN]  <E> broken: 100%% ~\xc3\xa4\n[QNN]  <E> more\n";
    assert_ptr_equal(strstr(shown, end), shown + strlen(shown) - strlen(end));
    assert_null(strstr(shown, "per op"));
    assert_null(strstr(shown, "of one op"));
    assert_null(strstr(shown, "option 66"));
    assert_int_equal(strspn(strstr(shown, "xxx"), "x"), 2999); /* longer than the first buffer */
    assert_int_equal(sw_qnn_log_level(), QNN_LOG_INFO);
    sw_log_set_level(SW_LOG_ERROR);
    collect(say_some);
    assert_string_equal(shown, end + 1);
    assert_int_equal(sw_qnn_log_level(), QNN_LOG_INFO); /* the DDR summary is wanted at every level */
    sw_log_set_level(SW_LOG_DEBUG);
    collect(say_some);
    assert_non_null(strstr(shown, "[QNN] per op\n[QNN] unexpected GraphHtpSettings option 66\n"));
    assert_int_equal(sw_qnn_log_level(), QNN_LOG_DEBUG);
    assert_non_null(strstr(shown, "[QNN]  <E> more\nerror: our sentence\n")); /* all in their order */
    /* Where all went well in the end, they are warnings. */
    sw_log_set_level(SW_LOG_INFO);
    ends_with = NULL;
    collect(say_some);
    assert_null(strstr(shown, "error: "));
    assert_non_null(
        strstr(shown, "\nwarning: [QNN]  <E> broken: 100%% ~\xc3\xa4\nwarning: [QNN]  <E> more\n"));
}

static void warn_of_a_cause(void) {
    say(QNN_LOG_WARN, " <W> another thing");
    say(QNN_LOG_WARN, " <W> Failed in loading stub: libcdsprpc.so: cannot open shared object file");
    sw_log_end("our sentence");
}

/* A warning that tells why something failed stands with the errors that follow from it. */
static void a_cause_stands_below_too(void **state) {
    (void)state;
    sw_log_set_level(SW_LOG_INFO);
    collect(warn_of_a_cause);
    assert_string_equal(
        shown, "warning: [QNN]  <W> another thing\nerror: our sentence\n[QNN]  <W> Failed in loading "
               "stub: libcdsprpc.so: cannot open shared object file\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_ddr_summary_needs_all_its_lines),
                                       cmocka_unit_test(reasons_are_the_first_true_errors),
                                       cmocka_unit_test(features_are_seen),
                                       cmocka_unit_test(ops_too_large_for_vtcm_are_seen),
                                       cmocka_unit_test(lines_are_shown_word_for_word),
                                       cmocka_unit_test(a_cause_stands_below_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
