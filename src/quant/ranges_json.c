/* ranges_json.c: the table of ranges to text and back, in the order in which they were first seen. */
#include "quant/ranges_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "quant/observe.h"

enum { VERSION = 1, MOST_RANGES = 1 << 20 };
#define FORMAT "spillway-ranges"

/* A name in a JSON text; the builder's names are plain ASCII, others are escaped by jansson. */
static bool write_name(const char *name, FILE *stream) {
    json_t *text = json_string(name);
    bool ok = text != NULL && json_dumpf(text, stream, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) == 0;
    json_decref(text);
    return ok;
}

sw_code sw_ranges_write_json(const sw_ranges *ranges, FILE *stream, sw_error *err) {
    fprintf(stream, "{\"format\": \"" FORMAT "\", \"version\": %d, \"ranges\": [", VERSION);
    bool first = true;
    for (uint32_t i = 0; i < sw_ranges_count(ranges); i++) {
        const char *name;
        const sw_range *r = sw_ranges_at(ranges, i, &name);
        if (r->min > r->max) continue; /* nothing was seen */
        fputs(first ? "\n[" : ",\n[", stream);
        first = false;
        if (!write_name(name, stream)) return SW_FAIL(err, SW_IO, "can't write a range's name");
        fprintf(stream, ", %.9g, %.9g, ", (double)r->min, (double)r->max);
        if (isfinite(r->least_row_max))
            fprintf(stream, "%.9g]", (double)r->least_row_max);
        else
            fputs("null]", stream);
    }
    fputs("\n]}\n", stream);
    return ferror(stream) == 0 ? SW_OK : SW_FAIL(err, SW_IO, "can't write ranges: %s", strerror(errno));
}

static sw_code read_float(const sw_json *array, size_t index, float *out, sw_error *err) {
    sw_json at = sw_json_element(array, index);
    double value;
    SW_TRY(sw_json_f64(&at, &value, err));
    *out = (float)value;
    return isfinite(*out) ? SW_OK : sw_json_fail(&at, err, "is %g, which no float holds", value);
}

static sw_code read_range(sw_ranges *ranges, const sw_json *at, sw_error *err) {
    size_t count;
    const char *name;
    sw_range r = SW_RANGE_EMPTY;
    SW_TRY(sw_json_array(at, 4, 4, &count, err));
    sw_json text = sw_json_element(at, 0), row_max = sw_json_element(at, 3);
    SW_TRY(sw_json_text(&text, false, SW_NAME_BYTES - 1, &name, err));
    SW_TRY(read_float(at, 1, &r.min, err));
    SW_TRY(read_float(at, 2, &r.max, err));
    if (r.min > r.max) return sw_json_fail(at, err, "goes from %g down to %g", (double)r.min, (double)r.max);
    if (!json_is_null(row_max.value)) SW_TRY(read_float(at, 3, &r.least_row_max, err));
    return sw_ranges_merge(ranges, name, r, err);
}

static sw_code read_document(sw_ranges *ranges, const sw_json *document, sw_error *err) {
    static const char *const keys[] = {"format", "version", "ranges", NULL};
    sw_json at;
    const char *format;
    int64_t version;
    size_t count;
    SW_TRY(sw_json_only_keys(document, keys, err));
    SW_TRY(sw_json_get(document, "format", &at, err));
    SW_TRY(sw_json_text(&at, false, 64, &format, err));
    if (strcmp(format, FORMAT) != 0) return sw_json_fail(&at, err, "is `%s`, wanted `" FORMAT "`", format);
    SW_TRY(sw_json_get(document, "version", &at, err));
    SW_TRY(sw_json_i64(&at, INT64_MIN, INT64_MAX, &version, err));
    if (version != VERSION)
        return SW_FAIL(err, SW_UNSUPPORTED, "%s: $.version: is %lld, this build reads %d", document->file,
                       (long long)version, VERSION);
    SW_TRY(sw_json_get(document, "ranges", &at, err));
    SW_TRY(sw_json_array(&at, 1, MOST_RANGES, &count, err));
    for (size_t i = 0; i < count; i++) {
        sw_json element = sw_json_element(&at, i);
        SW_TRY(read_range(ranges, &element, err));
    }
    return SW_OK;
}

sw_code sw_ranges_read_json(sw_ranges **out, const char *file, const char *text, size_t size, sw_error *err) {
    sw_json document = {0};
    *out = sw_ranges_create();
    if (*out == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", file);
    sw_code code = sw_json_parse(&document, file, text, size, err);
    if (code == SW_OK) code = read_document(*out, &document, err);
    sw_json_free(&document);
    if (code == SW_OK) return SW_OK;
    sw_ranges_free(*out);
    *out = NULL;
    return code;
}

sw_code sw_ranges_any(sw_ranges **out, const sw_decoder *decoder, sw_error *err) {
    const sw_range one = {-1, 1, 0};
    sw_code code = SW_OK;
    *out = sw_ranges_create();
    if (*out == NULL) return SW_FAIL(err, SW_NO_MEMORY, "out of memory");
    for (uint32_t g = 0; g < decoder->n_graphs; g++)
        for (uint32_t i = 0; i < decoder->graphs[g]->n_tensors && code == SW_OK; i++)
            code = sw_ranges_merge(*out, decoder->graphs[g]->tensors[i]->range, one, err);
    if (code == SW_OK) return SW_OK;
    sw_ranges_free(*out);
    *out = NULL;
    return code;
}
