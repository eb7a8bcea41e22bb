/* tokenizer_json_write.c: a tokenizer as tokenizer.json and tokenizer_config.json. The shape is listed in
 * tokenizer_json.h; source: the files that Hugging Face's tokenizers 0.21 writes. */
#include <stdio.h>

#include "base/file.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

/* Bytes that are UTF-8, as a JSON string. */
static void put_string(FILE *f, sw_span text) {
    putc('"', f);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\u%04x", c);
        else
            putc(c, f);
    }
    putc('"', f);
}

static void put_token_or_null(FILE *f, const sw_tokenizer_desc *desc, int64_t id) {
    if (id < 0)
        fputs("null", f);
    else
        put_string(f, desc->tokens[id]);
}

static void put_added_tokens(FILE *f, const sw_tokenizer_desc *desc) {
    const char *separator = "";
    fputs("  \"added_tokens\": [", f);
    for (size_t i = 0; desc->token_types != NULL && i < desc->n_tokens; i++) {
        int32_t type = desc->token_types[i];
        if (type != SW_TOKEN_CONTROL && type != SW_TOKEN_UNKNOWN && type != SW_TOKEN_USER_DEFINED) continue;
        fprintf(f, "%s\n    {\"id\": %zu, \"content\": ", separator, i);
        put_string(f, desc->tokens[i]);
        fprintf(f,
                ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                "\"special\": %s}",
                type == SW_TOKEN_USER_DEFINED ? "false" : "true");
        separator = ",";
    }
    fputs("\n  ],\n", f);
}

static void put_pre_tokenizer(FILE *f, const sw_pretokenizer_rule *rule) {
    fprintf(f, "  \"normalizer\": %s,\n", rule->nfc ? "{\"type\": \"NFC\"}" : "null");
    fputs("  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [", f);
    if (rule->json_digits) fputs("\n    {\"type\": \"Digits\", \"individual_digits\": true},", f);
    if (rule->json_split != NULL) {
        fputs("\n    {\"type\": \"Split\", \"pattern\": {\"Regex\": ", f);
        put_string(f, sw_span_of(rule->json_split));
        fputs("}, \"behavior\": \"Isolated\", \"invert\": false},", f);
    }
    fprintf(f,
            "\n    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
            "\"use_regex\": %s}"
            "\n  ]},\n",
            rule->json_byte_level_regex ? "true" : "false");
}

/* bos before the text; a pair of texts isn't used, but the format wants it. */
static void put_post_processor(FILE *f, const sw_tokenizer_desc *desc) {
    if (!desc->add_bos) {
        fputs("  \"post_processor\": null,\n", f);
        return;
    }
    sw_span bos = desc->tokens[desc->bos];
    fputs(
        "  \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": ",
        f);
    put_string(f, bos);
    fputs(", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [{\"Sequence\": "
          "{\"id\": "
          "\"A\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {",
          f);
    put_string(f, bos);
    fputs(": {\"id\": ", f);
    put_string(f, bos);
    fprintf(f, ", \"ids\": [%lld], \"tokens\": [", (long long)desc->bos);
    put_string(f, bos);
    fputs("]}}},\n", f);
}

static void put_model(FILE *f, const sw_tokenizer_desc *desc, const sw_pretokenizer_rule *rule) {
    fprintf(f,
            "  \"model\": {\n    \"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
            "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,\n    \"fuse_unk\": false, "
            "\"byte_fallback\": false, \"ignore_merges\": %s,\n    \"vocab\": {",
            rule->ignore_merges ? "true" : "false");
    for (size_t i = 0; i < desc->n_tokens; i++) {
        fputs(i > 0 ? ",\n      " : "\n      ", f);
        put_string(f, desc->tokens[i]);
        fprintf(f, ": %zu", i);
    }
    fputs("\n    },\n    \"merges\": [", f);
    for (size_t i = 0; i < desc->n_merges; i++) {
        fputs(i > 0 ? ",\n      " : "\n      ", f);
        put_string(f, desc->merges[i]);
    }
    fputs("\n    ]\n  }\n", f);
}

void sw_tokenizer_write_json(const sw_tokenizer *t, FILE *f) {
    fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n", f);
    put_added_tokens(f, &t->desc);
    put_pre_tokenizer(f, t->rule);
    put_post_processor(f, &t->desc);
    fputs("  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
          "\"use_regex\": true},\n",
          f);
    put_model(f, &t->desc, t->rule);
    fputs("}\n", f);
}

void sw_tokenizer_write_config(const sw_tokenizer *t, FILE *f) {
    const sw_tokenizer_desc *desc = &t->desc;
    const struct {
        const char *key;
        int64_t id;
    } tokens[] = {{"bos_token", desc->bos},
                  {"eos_token", desc->eos},
                  {"unk_token", desc->unk},
                  {"pad_token", desc->pad}};
    fprintf(f, "{\n  \"add_bos_token\": %s,\n", desc->add_bos ? "true" : "false");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        fprintf(f, "  \"%s\": ", tokens[i].key);
        put_token_or_null(f, desc, tokens[i].id);
        fputs(",\n", f);
    }
    fputs("  \"chat_template\": ", f);
    if (desc->chat_template.size > 0)
        put_string(f, desc->chat_template);
    else
        fputs("null", f);
    fprintf(
        f,
        ",\n  \"clean_up_tokenization_spaces\": false,\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
        "  \"spillway_pre\": \"%s\",\n  \"spillway_end_ids\": [",
        t->rule->name);
    const char *separator = "";
    for (size_t i = 0; i < desc->n_tokens; i++) {
        if (!t->is_end[i]) continue;
        fprintf(f, "%s%zu", separator, i);
        separator = ", ";
    }
    fputs("]\n}\n", f);
}

static sw_code save(const sw_tokenizer *t, const char *path, void (*put)(const sw_tokenizer *, FILE *),
                    sw_error *err) {
    sw_file_writer w;
    SW_TRY(sw_file_writer_open(&w, path, err));
    put(t, w.stream);
    return sw_file_writer_commit(&w, err); /* sees failed writes */
}

sw_code sw_tokenizer_save(const sw_tokenizer *t, const char *folder, sw_error *err) {
    sw_arena arena = SW_ARENA_EMPTY;
    const char *tokenizer = sw_path_join(&arena, folder, SW_TOKENIZER_JSON);
    const char *config = sw_path_join(&arena, folder, SW_TOKENIZER_CONFIG_JSON);
    sw_code code = tokenizer != NULL && config != NULL
                       ? SW_OK
                       : SW_FAIL(err, SW_NO_MEMORY, "no memory for the tokenizer's paths");
    if (code == SW_OK) code = save(t, tokenizer, sw_tokenizer_write_json, err);
    if (code == SW_OK) code = save(t, config, sw_tokenizer_write_config, err);
    sw_arena_free(&arena);
    return code;
}
