/* pretokenize.h: cutting text into words, which merges never cross. Each model family has its own rule; a
 * wrong one still gives tokens, but others than the model was trained on. */
#ifndef SW_TEXT_PRETOKENIZE_H
#define SW_TEXT_PRETOKENIZE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "spillway/error.h"

/* One rule; static. */
typedef struct sw_pretokenizer_rule {
    const char *name;    /* GGUF's tokenizer.ggml.pre */
    const char *pattern; /* for PCRE2; each match is a word, and matches cover the text */
    /* The same as a tokenizer.json says it: Digits(individual)? Split(regex)? ByteLevel(use_regex)? */
    bool json_digits;
    const char *json_split; /* NULL: none */
    bool json_byte_level_regex;
    bool nfc;           /* text is brought to Unicode's form C first */
    bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
} sw_pretokenizer_rule;

/* NULL where the name isn't known. */
const sw_pretokenizer_rule *sw_pretokenizer_rule_find(sw_span name);

/* The rules, ended by one without a name. */
const sw_pretokenizer_rule *sw_pretokenizer_rules(void);

typedef struct sw_pretokenizer sw_pretokenizer; /* a compiled rule; threads may share it */

sw_code sw_pretokenizer_create(sw_pretokenizer **out, const sw_pretokenizer_rule *rule,
                               sw_error *err) SW_MUST_CHECK;
void sw_pretokenizer_destroy(sw_pretokenizer *p); /* NULL is allowed */

/* Calls sink for each word, in order, until it fails. Runs of bytes that aren't UTF-8 are words of their own.
 * Errors: sink's, SW_NO_MEMORY, SW_LIBRARY (PCRE2's). */
typedef sw_code sw_word_sink(void *context, sw_span word, sw_error *err);
sw_code sw_pretokenize(const sw_pretokenizer *p, sw_span text, sw_word_sink *sink, void *context,
                       sw_error *err) SW_MUST_CHECK;

/* For messages on a regex that isn't of a rule: SW_BAD_DATA with the place where it is wrong. */
sw_code sw_regex_check(sw_span regex, sw_error *err) SW_MUST_CHECK;

#endif
