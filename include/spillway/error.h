/* error.h: errors are values. A function that can fail returns an sw_code that must be looked at, and puts
 * one sentence into an sw_error that the caller owns: nothing to free, fits across threads. */
#ifndef SPILLWAY_ERROR_H
#define SPILLWAY_ERROR_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codes, once: name, text. SW_INVALID_ARGUMENT is wrong use (exit status 2): the command line has to
 * change, by itself or for the model that it names. All others are failures (1), what is wrong with a file's
 * content among them. */
#define SW_CODES(X)                                                                                          \
    X(SW_OK, "ok")                                                                                           \
    X(SW_INVALID_ARGUMENT, "invalid argument")                                                               \
    X(SW_BAD_DATA, "bad data")                                                                               \
    X(SW_NOT_FOUND, "not found")                                                                             \
    X(SW_UNSUPPORTED, "not supported")                                                                       \
    X(SW_IO, "input/output error")                                                                           \
    X(SW_NO_MEMORY, "out of memory")                                                                         \
    X(SW_LIBRARY, "the vendor's library failed")                                                             \
    X(SW_INTERNAL, "internal error")

typedef enum sw_code {
#define SW_CODE_ENUM(name, text) name,
    SW_CODES(SW_CODE_ENUM)
#undef SW_CODE_ENUM
        SW_CODE_COUNT
} sw_code;

enum { SW_ERROR_MESSAGE_BYTES = 1024 };

/* The sentence of the first failure: what was wrong, where in which file, what would be right. */
typedef struct sw_error {
    sw_code code;
    char message[SW_ERROR_MESSAGE_BYTES];
} sw_error;

/* The code's short text, static. Never NULL. */
const char *sw_code_text(sw_code code);

#if defined(__GNUC__)
#define SW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SW_MUST_CHECK        __attribute__((warn_unused_result))
#else
#define SW_PRINTF(fmt, args)
#define SW_MUST_CHECK
#endif

/* Fills *err (may be NULL) and returns code. Control characters in the sentence are shown as \xNN, so that
 * text from a file can't write to a terminal. One that is too long loses the middles of its longest words. */
sw_code sw_fail(sw_error *err, sw_code code, const char *format, ...) SW_PRINTF(3, 4);
sw_code sw_vfail(sw_error *err, sw_code code, const char *format, va_list args) SW_PRINTF(3, 0);

/* Puts "text: " before the sentence that is there; for context on the way up. Returns err->code. */
sw_code sw_error_prefix(sw_error *err, const char *format, ...) SW_PRINTF(2, 3);

#define SW_FAIL(err, code, ...) sw_fail((err), (code), __VA_ARGS__)

/* Evaluates a call; on failure returns its code. */
#define SW_TRY(call)                                                                                         \
    do {                                                                                                     \
        sw_code sw_try_code_ = (call);                                                                       \
        if (sw_try_code_ != SW_OK) return sw_try_code_;                                                      \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
