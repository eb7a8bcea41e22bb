/* pretokenize.c: the rules, as regexes for PCRE2, and their use.
 *
 * Sources: gpt-2: OpenAI's gpt-2, src/encoder.py. smollm: HuggingFaceTB/SmolLM2's tokenizer.json: each digit
 * (any \p{N}) alone, then gpt-2's pattern on what is between. llama-bpe: meta-llama/Meta-Llama-3-8B's
 * tokenizer.json; qwen2: Qwen/Qwen2-7B's. The names are those of GGUF's key tokenizer.ggml.pre. */
#include "text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer.h"

/* Unicode's White_Space, which the original engines mean by \s; PCRE2's own \s also takes U+180E. */
#define SPACES                                                                                               \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{" \
    "3000}"
#define S     "[" SPACES "]"
#define NOT_S "[^" SPACES "]"

#define GPT2_PATTERN                                                                                         \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|" S "+(?!" NOT_S ")|" S "+"

/* In one pass: what is cut off by a digit ends there as a text ends, so space before a digit is not followed
 * by anything, and a digit takes no space with it. */
#define SMOLLM_PATTERN                                                                                       \
    "\\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?[^" SPACES "\\p{L}\\p{N}]+|" S "+(?![^" SPACES "\\p{N}])|" S \
    "+"

/* Llama 3 and Qwen2 differ in how many digits stand together. */
#define LLAMA3_PATTERN(digits, in_class, space, not_space)                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" in_class                    \
    "\\p{L}\\p{N}]+[\\r\\n]*|" space "*[\\r\\n]+|" space "+(?!" not_space ")|" space "+"
#define LLAMA3_FOR_PCRE2(digits) LLAMA3_PATTERN(digits, SPACES, S, NOT_S)
#define LLAMA3_IN_JSON(digits)   LLAMA3_PATTERN(digits, "\\s", "\\s", "\\S")
#define UP_TO_3_DIGITS           "\\p{N}{1,3}"
#define ONE_DIGIT                "\\p{N}"

static const sw_pretokenizer_rule rules[] = {
    {.name = "smollm", .pattern = SMOLLM_PATTERN, .json_digits = true, .json_byte_level_regex = true},
    {.name = "gpt-2", .pattern = GPT2_PATTERN, .json_byte_level_regex = true},
    {.name = "llama-bpe",
     .pattern = LLAMA3_FOR_PCRE2(UP_TO_3_DIGITS),
     .json_split = LLAMA3_IN_JSON(UP_TO_3_DIGITS),
     .ignore_merges = true},
    {.name = "qwen2",
     .pattern = LLAMA3_FOR_PCRE2(ONE_DIGIT),
     .json_split = LLAMA3_IN_JSON(ONE_DIGIT),
     .nfc = true},
    {0},
};

const sw_pretokenizer_rule *sw_pretokenizer_rules(void) {
    return rules;
}

const char *sw_pretokenizer_names(void) {
    return "smollm, gpt-2, llama-bpe, qwen2";
}

const sw_pretokenizer_rule *sw_pretokenizer_rule_find(sw_span name) {
    for (const sw_pretokenizer_rule *r = rules; r->name != NULL; r++)
        if (strlen(r->name) == name.size && memcmp(r->name, name.data, name.size) == 0) return r;
    return NULL;
}

struct sw_pretokenizer {
    const sw_pretokenizer_rule *rule;
    pcre2_code *code;
    pcre2_match_context *limits;
};

static sw_code fail_pcre2(int number, sw_code code, const char *what, sw_error *err) {
    PCRE2_UCHAR text[128] = "unknown error";
    pcre2_get_error_message(number, text, sizeof text);
    return SW_FAIL(err, code, "%s: PCRE2 says: %s", what, (const char *)text);
}

sw_code sw_pretokenizer_create(sw_pretokenizer **out, const sw_pretokenizer_rule *rule, sw_error *err) {
    sw_pretokenizer *p = calloc(1, sizeof *p);
    if (p == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory for a pre-tokenizer");
    p->rule = rule;
    int number;
    size_t at;
    p->code = pcre2_compile((PCRE2_SPTR)rule->pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &number, &at, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (p->code == NULL || p->limits == NULL) {
        sw_code code = p->code == NULL ? fail_pcre2(number, SW_LIBRARY, rule->name, err)
                                       : SW_FAIL(err, SW_NO_MEMORY, "no memory for a pre-tokenizer");
        sw_pretokenizer_destroy(p);
        return code;
    }
    /* The patterns step back at most once over a run of spaces, so a long run is no runaway match. */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* where it can't, matching is interpreted */
    *out = p;
    return SW_OK;
}

void sw_pretokenizer_destroy(sw_pretokenizer *p) {
    if (p == NULL) return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    free(p);
}

/* Cuts valid UTF-8 into words. */
static sw_code cut(const sw_pretokenizer *p, sw_span text, pcre2_match_data *match, sw_word_sink *sink,
                   void *context, sw_error *err) {
    const size_t *bounds = pcre2_get_ovector_pointer(match);
    for (size_t at = 0; at < text.size; at = bounds[1]) {
        PCRE2_SPTR subject = (PCRE2_SPTR)text.data;
        int n = pcre2_match(p->code, subject, text.size, at, PCRE2_NO_UTF_CHECK, match, p->limits);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(p->code, subject, text.size, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                            p->limits);
        if (n == PCRE2_ERROR_NOMEMORY)
            return SW_FAIL(err, SW_NO_MEMORY, "no memory to split %zu bytes", text.size);
        if (n < 0) return fail_pcre2(n, SW_LIBRARY, p->rule->name, err);
        SW_TRY(sink(context, (sw_span){text.data + at, bounds[1] - at}, err));
    }
    return SW_OK;
}

static bool is_ascii(sw_span text) {
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80) return false;
    return true;
}

/* As cut, after bringing the text to form C. */
static sw_code cut_composed(const sw_pretokenizer *p, sw_span text, pcre2_match_data *match,
                            sw_word_sink *sink, void *context, sw_error *err) {
    if (text.size > PTRDIFF_MAX / 8)
        return SW_FAIL(err, SW_UNSUPPORTED, "%zu bytes are too many to normalize", text.size);
    utf8proc_uint8_t *composed = NULL;
    utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size,
                                         &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (size == UTF8PROC_ERROR_NOMEM)
        return SW_FAIL(err, SW_NO_MEMORY, "no memory to normalize %zu bytes", text.size);
    if (size < 0)
        return SW_FAIL(err, SW_LIBRARY, "normalizing text: utf8proc says: %s", utf8proc_errmsg(size));
    sw_code code = cut(p, (sw_span){(const char *)composed, (size_t)size}, match, sink, context, err);
    free(composed);
    return code;
}

/* Bytes at the start of text that no character begins with. */
static size_t count_invalid(sw_span text) {
    size_t n = 0, bad = 0;
    while (n < text.size && !sw_utf8_valid(text.data + n, text.size - n, &bad) && bad == 0) n++;
    return n;
}

sw_code sw_pretokenize(const sw_pretokenizer *p, sw_span text, sw_word_sink *sink, void *context,
                       sw_error *err) {
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (match == NULL) return SW_FAIL(err, SW_NO_MEMORY, "no memory to split text");
    sw_code code = SW_OK;
    for (size_t at = 0; at < text.size && code == SW_OK;) {
        sw_span run = {text.data + at, text.size - at};
        size_t bad;
        if (!sw_utf8_valid(run.data, run.size, &bad)) run.size = bad;
        if (run.size == 0) {
            run.size = count_invalid((sw_span){run.data, text.size - at});
            code = sink(context, run, err);
        } else if (p->rule->nfc && !is_ascii(run))
            code = cut_composed(p, run, match, sink, context, err);
        else
            code = cut(p, run, match, sink, context, err);
        at += run.size;
    }
    pcre2_match_data_free(match);
    return code;
}

sw_code sw_regex_check(sw_span regex, sw_error *err) {
    int number;
    size_t at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)regex.data, regex.size, PCRE2_UTF | PCRE2_UCP, &number, &at, NULL);
    if (code == NULL) {
        (void)fail_pcre2(number, SW_BAD_DATA, "bad regex", err);
        return sw_error_prefix(err, "at byte %zu", at);
    }
    pcre2_code_free(code);
    return SW_OK;
}
