/* write.c: writes a bundle so that the folder holds a whole one at every moment.
 *
 *   1. lock the folder; clean up what a stopped compile left
 *   2. write the parts into .spillway-partial/, named by their content
 *   3. flush the parts to disk; write the new manifest there, and beside it a copy of the folder's old one
 *   4. move the parts up: no file of the old bundle has a new part's name, unless it is the same part
 *   5. rename the manifest over the old one: from here on the folder is the new bundle
 *   6. clean up: parts that either manifest in .spillway-partial names and the folder's doesn't are deleted,
 *      then .spillway-partial itself
 *
 * A stop after any step leaves the old bundle (before 5) or the new one, and step 1 of the next compile ends
 * what 6 would have done: the manifests in .spillway-partial are the journal. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "bundle/internal.h"
#include "bundle/safetensors_write.h"

#define PREVIOUS_NAME "previous-manifest.json"
#define WEIGHTS_NAME  "weights.safetensors"
#define SINK_NAME     "sink.safetensors"

struct sw_bundle_writer {
    sw_arena arena;
    char *folder, *partial;
    int folder_fd; /* locked */
    bool made_folder;
    int interrupts[2]; /* entries of partial, and of a folder that was made (base/interrupt.h) */
    sw_part parts[SW_MAX_PARTS];
    uint32_t n_parts;
    sw_decoder *decoder; /* borrowed, from begin_weights on */
    sw_safetensors_writer stream;
    sw_safetensors weights; /* after end_weights */
};

static sw_code no_memory(const sw_bundle_writer *w, sw_error *err) {
    return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", w->folder);
}

/* ---- The folder ---- */

/* Reads a manifest for its parts alone; false where there is none that can be read. */
static bool read_manifest(const char *folder, const char *name, sw_arena *arena, sw_manifest *out) {
    char *text;
    size_t size;
    const char *path = sw_path_join(arena, folder, name);
    return path != NULL && sw_file_read(path, SW_MANIFEST_MAX_BYTES, arena, &text, &size, NULL) == SW_OK &&
           sw_manifest_read(out, arena, path, text, size, NULL) == SW_OK;
}

static bool names_part(const sw_manifest *m, const char *path) {
    for (uint32_t i = 0; i < m->n_parts; i++)
        if (strcmp(m->parts[i].path, path) == 0) return true;
    return false;
}

/* A name that this file gave: it holds the hash. A foreign manifest can't make us delete anything else. */
static bool is_ours(const sw_part *part) {
    char digits[16];
    snprintf(digits, sizeof digits, "-%.8s", part->sha256);
    return strstr(part->path, digits) != NULL;
}

/* Step 6. Where the folder's manifest is there but unreadable, nothing it may name is deleted. */
static void clean_up(const char *folder, const char *partial) {
    static const char *const journal[] = {SW_MANIFEST_NAME, PREVIOUS_NAME};
    sw_arena arena = SW_ARENA_EMPTY;
    sw_manifest current = {0}, other;
    struct stat st;
    struct dirent *e;
    int fd = open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); /* a link is not ours */
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    const char *path = sw_path_join(&arena, folder, SW_MANIFEST_NAME);
    bool known = path != NULL && (read_manifest(folder, SW_MANIFEST_NAME, &arena, &current) ||
                                  (lstat(path, &st) != 0 && errno == ENOENT));
    for (unsigned i = 0; known && i < 2; i++) {
        if (!read_manifest(partial, journal[i], &arena, &other)) continue;
        for (uint32_t k = 0; k < other.n_parts; k++) {
            if (!is_ours(&other.parts[k]) || names_part(&current, other.parts[k].path)) continue;
            path = sw_path_join(&arena, folder, other.parts[k].path);
            if (path != NULL) unlink(path);
        }
    }
    while ((e = readdir(dir)) != NULL) unlinkat(dirfd(dir), e->d_name, 0); /* files only */
    closedir(dir);
    rmdir(partial);
    sw_arena_free(&arena);
}

/* The lock is the folder's own: nothing to leave behind, and gone with the process. */
static sw_code lock_folder(sw_bundle_writer *w, sw_error *err) {
    w->folder_fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->folder_fd < 0) return SW_FAIL(err, SW_IO, "%s: can't open: %s", w->folder, strerror(errno));
    if (flock(w->folder_fd, LOCK_EX | LOCK_NB) == 0) return SW_OK;
    if (errno == EWOULDBLOCK)
        return SW_FAIL(err, SW_IO, "%s: another compile is writing into this folder", w->folder);
    sw_log(SW_LOG_WARN, "%s: its file system has no locks (%s); don't run two compiles into it", w->folder,
           strerror(errno));
    return SW_OK;
}

/* A manifest.json that is no bundle's would be lost at the commit: a web page's, or the checkpoint itself. An
 * empty one is taken: nothing is lost with it. */
static sw_code check_manifest_is_ours(sw_bundle_writer *w, sw_error *err) {
    static const char mark[] = "\"" SW_MANIFEST_FORMAT "\"";
    const char *path = sw_path_join(&w->arena, w->folder, SW_MANIFEST_NAME);
    if (path == NULL) return no_memory(w, err);
    sw_file_map map;
    sw_code code = sw_file_map_open(&map, path, err);
    if (code == SW_NOT_FOUND) return SW_OK;
    if (code == SW_OK && map.size > 0 &&
        (map.size > SW_MANIFEST_MAX_BYTES ||
         memmem(map.data, (size_t)map.size, mark, sizeof mark - 1) == NULL))
        code = SW_FAIL(
            err, SW_IO,
            "%s: is not a bundle's and would be replaced: wanted another folder, or that file moved away",
            path);
    sw_file_map_close(&map);
    return code;
}

static sw_code begin(sw_bundle_writer **out, const char *folder, sw_error *err) {
    bool made = access(folder, F_OK) != 0;
    SW_TRY(sw_folder_make(folder, err));
    sw_bundle_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", folder);
    w->folder_fd = -1;
    w->made_folder = made;
    w->folder = sw_arena_strdup(&w->arena, folder);
    char *partial = sw_path_join(&w->arena, folder, SW_PARTIAL_NAME);
    sw_code code = SW_OK;
    if (w->folder == NULL || partial == NULL) code = SW_FAIL(err, SW_NO_MEMORY, "%s: out of memory", folder);
    if (code == SW_OK) code = lock_folder(w, err);
    if (code == SW_OK) code = check_manifest_is_ours(w, err);
    if (code == SW_OK) {
        clean_up(folder, partial);
        if (made) w->interrupts[1] = sw_interrupt_add_empty_folder(w->folder);
        w->interrupts[0] = sw_interrupt_add_folder(partial);
        if (mkdir(partial, 0777) == 0)
            w->partial = partial; /* from now on ours to remove */
        else
            code = SW_FAIL(err, SW_IO, "%s: can't make the folder: %s", partial, strerror(errno));
    }
    if (code != SW_OK) {
        sw_bundle_writer_free(w);
        return code;
    }
    *out = w;
    return SW_OK;
}

sw_code sw_bundle_writer_begin(sw_bundle_writer **out, const char *folder, sw_error *err) {
    *out = NULL;
    sw_interrupt_hold(); /* until what it makes is listed */
    sw_code code = begin(out, folder, err);
    sw_interrupt_release();
    return code;
}

/* ---- Parts ---- */

/* "kv forward.bin" with its hash: "kv_forward-1a2b3c4d.bin", in the arena. */
static char *part_name(sw_bundle_writer *w, const char *name, const char *sha256) {
    char *copy = sw_arena_strdup(&w->arena, name);
    if (copy == NULL) return NULL;
    for (char *p = copy; *p != '\0'; p++) {
        bool keep = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
                    *p == '_' || *p == '-' || (*p == '.' && p > copy);
        if (!keep) *p = '_';
    }
    const char *dot = strrchr(copy, '.'), *ending = dot != NULL ? dot : "";
    int stem = (int)(dot != NULL ? dot - copy : (ptrdiff_t)strlen(copy));
    return sw_arena_printf(&w->arena, "%.*s-%.8s%s", stem, copy, sha256, ending);
}

static sw_code register_part(sw_bundle_writer *w, sw_part_kind kind, const char *name, uint64_t size,
                             const char *sha256, const sw_part **out, sw_error *err) {
    sw_part part = {.kind = kind, .bytes = size};
    if (w->n_parts == SW_MAX_PARTS)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "a bundle has at most %d parts", SW_MAX_PARTS);
    if (strlen(name) > SW_MAX_PART_PATH_BYTES - 16)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "part name `%.64s...` exceeds %d bytes", name,
                       SW_MAX_PART_PATH_BYTES - 16);
    memcpy(part.sha256, sha256, sizeof part.sha256);
    if ((part.path = part_name(w, name, part.sha256)) == NULL) return no_memory(w, err);
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (strcmp(w->parts[i].path, part.path) == 0)
            return SW_FAIL(err, SW_INVALID_ARGUMENT, "part `%s` with the same content is there already",
                           name);
    w->parts[w->n_parts] = part;
    *out = &w->parts[w->n_parts++];
    return SW_OK;
}

sw_code sw_bundle_writer_add(sw_bundle_writer *w, sw_part_kind kind, const char *name, const void *data,
                             uint64_t size, sw_error *err) {
    const sw_part *part;
    char hex[SW_SHA256_HEX_BYTES];
    sw_sha256 s;
    sw_sha256_init(&s);
    sw_sha256_update(&s, data, (size_t)size);
    sw_sha256_final(&s, hex);
    SW_TRY(register_part(w, kind, name, size, hex, &part, err));
    const char *path = sw_path_join(&w->arena, w->partial, part->path);
    return path != NULL ? sw_file_put(path, data, (size_t)size, err) : no_memory(w, err);
}

/* ---- Weights ---- */

sw_code sw_bundle_writer_begin_weights(sw_bundle_writer *w, sw_decoder *decoder, sw_error *err) {
    uint64_t room = 0;
    for (uint32_t i = 0; i < decoder->n_constants; i++)
        room += 3 * sw_safetensors_header_room(decoder->constants[i]->name);
    w->decoder = decoder;
    const char *path = sw_path_join(&w->arena, w->partial, WEIGHTS_NAME);
    return path != NULL ? sw_safetensors_writer_open(&w->stream, path, room, err) : no_memory(w, err);
}

sw_code sw_bundle_writer_put_constant(sw_bundle_writer *w, const sw_tensor *t, const void *data,
                                      sw_error *err) {
    SW_TRY(sw_safetensors_writer_put(&w->stream, t->name, sw_weights_dtype(t->dtype), t->rank, t->dims, data,
                                     err));
    char name[SW_SCALE_NAME_BYTES];
    uint32_t dims[2];
    sw_weights_scale_name(name, t->name);
    if (t->channel_scales != NULL)
        SW_TRY(sw_safetensors_writer_put(&w->stream, name, SW_ST_F32, 1, t->dims, t->channel_scales, err));
    if (t->form.scales == SW_SCALES_ROW) return SW_OK;
    const void *scales = t->block_steps;
    if (t->form.scales == SW_SCALES_FLOAT_BLOCK) scales = t->block_scales;
    sw_st_dtype dtype = sw_weights_block_scales(t, dims);
    sw_weights_block_scale_name(name, t->name);
    return sw_safetensors_writer_put(&w->stream, name, dtype, 2, dims, scales, err);
}

/* Makes a whole file of .spillway-partial, of that hash, a part: gives it its name. */
static sw_code rename_part(sw_bundle_writer *w, sw_part_kind kind, const char *name, uint64_t size,
                           const char *sha256, sw_error *err) {
    const sw_part *part;
    SW_TRY(register_part(w, kind, name, size, sha256, &part, err));
    const char *written = sw_path_join(&w->arena, w->partial, name),
               *named = sw_path_join(&w->arena, w->partial, part->path);
    if (written == NULL || named == NULL) return no_memory(w, err);
    if (rename(written, named) == 0) return SW_OK;
    return SW_FAIL(err, SW_IO, "%s: can't rename to %s: %s", written, named, strerror(errno));
}

static sw_code adopt(sw_bundle_writer *w, sw_part_kind kind, const char *name, const sw_file_map *map,
                     sw_error *err) {
    char hex[SW_SHA256_HEX_BYTES];
    sw_hash_map(map, hex);
    return rename_part(w, kind, name, map->size, hex, err);
}

sw_code sw_bundle_writer_path(sw_bundle_writer *w, const char *name, const char **path, sw_error *err) {
    *path = sw_path_join(&w->arena, w->partial, name);
    return *path != NULL ? SW_OK : no_memory(w, err);
}

sw_code sw_bundle_writer_adopt(sw_bundle_writer *w, sw_part_kind kind, const char *name, const sw_part **out,
                               sw_error *err) {
    sw_file_map map;
    const char *path;
    SW_TRY(sw_bundle_writer_path(w, name, &path, err));
    SW_TRY(sw_file_map_open(&map, path, err));
    sw_code code = adopt(w, kind, name, &map, err);
    if (code == SW_OK && out != NULL) *out = &w->parts[w->n_parts - 1];
    sw_file_map_close(&map);
    return code;
}

static const sw_part *first_part(const sw_bundle_writer *w, sw_part_kind kind) {
    for (uint32_t i = 0; i < w->n_parts; i++)
        if (w->parts[i].kind == kind) return &w->parts[i];
    return NULL;
}

const char *sw_bundle_writer_sha256(const sw_bundle_writer *w, sw_part_kind kind) {
    const sw_part *part = first_part(w, kind);
    return part != NULL ? part->sha256 : NULL;
}

const char *sw_bundle_writer_file(sw_bundle_writer *w, sw_part_kind kind) {
    const sw_part *part = first_part(w, kind);
    return part != NULL ? sw_path_join(&w->arena, w->partial, part->path) : NULL;
}

sw_code sw_bundle_writer_end_weights(sw_bundle_writer *w, sw_error *err) {
    SW_TRY(sw_safetensors_writer_commit(&w->stream, err));
    const char *written = sw_path_join(&w->arena, w->partial, WEIGHTS_NAME);
    if (written == NULL) return no_memory(w, err);
    SW_TRY(sw_safetensors_open(&w->weights, written, err));
    bool *per_channel = sw_arena_array(&w->arena, w->decoder->n_constants, sizeof *per_channel);
    if (per_channel == NULL) return no_memory(w, err);
    for (uint32_t i = 0; i < w->decoder->n_constants; i++)
        per_channel[i] = w->decoder->constants[i]->channel_scales != NULL;
    return sw_weights_attach(w->decoder, per_channel, &w->weights, err);
}

sw_code sw_bundle_writer_take_weights(sw_bundle_writer *w, sw_decoder *decoder, const char *file,
                                      const char *sha256, sw_error *err) {
    char found[SW_SHA256_HEX_BYTES];
    const char *path = sw_path_join(&w->arena, w->partial, WEIGHTS_NAME);
    bool *per_channel = sw_arena_array(&w->arena, decoder->n_constants, sizeof *per_channel);
    if (path == NULL || per_channel == NULL) return no_memory(w, err);
    w->decoder = decoder;
    SW_TRY(sw_file_copy(file, path, found, err));
    if (strcmp(found, sha256) != 0)
        return SW_FAIL(err, SW_BAD_DATA, "%s: its SHA-256 is %s, wanted %s", file, found, sha256);
    SW_TRY(sw_safetensors_open(&w->weights, path, err));
    SW_TRY(rename_part(w, SW_PART_WEIGHTS, WEIGHTS_NAME, w->weights.map.size, found, err));
    for (uint32_t i = 0; i < decoder->n_constants; i++) {
        const sw_tensor *t = decoder->constants[i];
        per_channel[i] = t->dtype == SW_S8 && t->form.scales != SW_SCALES_FLOAT_BLOCK;
    }
    return sw_weights_attach(decoder, per_channel, &w->weights, err);
}

sw_code sw_bundle_writer_hash_weights(sw_bundle_writer *w, sw_error *err) {
    if (w->weights.map.path == NULL)
        return SW_FAIL(err, SW_INVALID_ARGUMENT, "%s: the weights are not written yet", w->folder);
    if (first_part(w, SW_PART_WEIGHTS) != NULL) return SW_OK;
    return adopt(w, SW_PART_WEIGHTS, WEIGHTS_NAME, &w->weights.map, err);
}

void sw_bundle_writer_drop_pages(const sw_bundle_writer *w) {
    sw_file_map_drop_pages(&w->weights.map, 0, w->weights.map.size);
}

/* ---- Commit ---- */

static sw_code add_graph(sw_bundle_writer *w, sw_error *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) return no_memory(w, err);
    sw_code code = sw_decoder_write_json(w->decoder, stream, err);
    if (fclose(stream) != 0 && code == SW_OK) code = no_memory(w, err);
    if (code == SW_OK) code = sw_bundle_writer_add(w, SW_PART_GRAPH, "graph.json", text, size, err);
    free(text);
    return code;
}

static sw_code add_sink(sw_bundle_writer *w, sw_error *err) {
    if (w->decoder->sink.n_tokens == 0) return SW_OK;
    const char *path;
    SW_TRY(sw_bundle_writer_path(w, SINK_NAME, &path, err));
    SW_TRY(sw_bundle_sink_write(w->decoder, path, err));
    return sw_bundle_writer_adopt(w, SW_PART_SINK, SINK_NAME, NULL, err);
}

static sw_code sync_folder(const sw_bundle_writer *w, sw_error *err) {
    if (fsync(w->folder_fd) == 0 || errno == EINVAL) return SW_OK; /* some file systems can't */
    return SW_FAIL(err, SW_IO, "%s: can't flush: %s", w->folder, strerror(errno));
}

static sw_code move_up(sw_bundle_writer *w, const char *name, sw_error *err) {
    const char *from = sw_path_join(&w->arena, w->partial, name),
               *to = sw_path_join(&w->arena, w->folder, name);
    if (from == NULL || to == NULL) return no_memory(w, err);
    if (rename(from, to) == 0) return SW_OK;
    return SW_FAIL(err, SW_IO, "%s: can't rename to %s: %s", from, to, strerror(errno));
}

/* Parts were on their way to the disk since they were written: little is left to wait for. */
static sw_code flush_parts(sw_bundle_writer *w, sw_error *err) {
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const char *path = sw_path_join(&w->arena, w->partial, w->parts[i].path);
        SW_TRY(path != NULL ? sw_file_flush(path, err) : no_memory(w, err));
    }
    return SW_OK;
}

/* Step 3: both manifests, so that a stop in 4 to 6 can be mended. */
static sw_code write_journal(sw_bundle_writer *w, const char *text, size_t size, sw_error *err) {
    const char *current = sw_path_join(&w->arena, w->folder, SW_MANIFEST_NAME);
    const char *previous = sw_path_join(&w->arena, w->partial, PREVIOUS_NAME);
    const char *next = sw_path_join(&w->arena, w->partial, SW_MANIFEST_NAME);
    char *old;
    size_t old_size;
    if (current == NULL || previous == NULL || next == NULL) return no_memory(w, err);
    if (sw_file_read(current, SW_MANIFEST_MAX_BYTES, &w->arena, &old, &old_size, NULL) == SW_OK)
        SW_TRY(sw_file_replace(previous, old, old_size, err));
    return sw_file_replace(next, text, size, err);
}

/* Steps 3 to 5. */
static sw_code switch_over(sw_bundle_writer *w, const char *text, size_t size, sw_error *err) {
    SW_TRY(flush_parts(w, err));
    SW_TRY(write_journal(w, text, size, err));
    for (uint32_t i = 0; i < w->n_parts; i++) SW_TRY(move_up(w, w->parts[i].path, err));
    SW_TRY(sync_folder(w, err));
    SW_TRY(move_up(w, SW_MANIFEST_NAME, err));
    return sync_folder(w, err);
}

sw_code sw_bundle_writer_commit(sw_bundle_writer *w, sw_manifest *manifest, sw_error *err) {
    char *text;
    size_t size;
    SW_TRY(sw_bundle_writer_hash_weights(w, err));
    SW_TRY(add_graph(w, err));
    SW_TRY(add_sink(w, err));
    manifest->parts = w->parts;
    manifest->n_parts = w->n_parts;
    manifest->spill_fill_buffer_bytes = 0;
    for (uint32_t i = 0; i < manifest->n_graphs; i++)
        if (manifest->graphs[i].spill_fill_bytes > manifest->spill_fill_buffer_bytes)
            manifest->spill_fill_buffer_bytes = manifest->graphs[i].spill_fill_bytes;
    SW_TRY(sw_manifest_check_decoder(manifest, w->decoder, SW_MANIFEST_NAME, err));
    SW_TRY(sw_manifest_write(manifest, &w->arena, &text, &size, err));

    sw_interrupt_hold();
    sw_code code = switch_over(w, text, size, err);
    if (code == SW_OK) clean_up(w->folder, w->partial);
    sw_interrupt_release();
    return code;
}

void sw_bundle_writer_free(sw_bundle_writer *w) {
    if (w == NULL) return;
    sw_safetensors_writer_discard(&w->stream);
    sw_safetensors_close(&w->weights);
    if (w->partial != NULL) clean_up(w->folder, w->partial);
    if (w->made_folder) rmdir(w->folder); /* where nothing is in it */
    for (int i = 0; i < 2; i++) sw_interrupt_drop(w->interrupts[i]);
    if (w->folder_fd >= 0) close(w->folder_fd); /* unlocks */
    sw_arena_free(&w->arena);
    free(w);
}
