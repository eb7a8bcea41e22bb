/* file_room.c: a shared map of a file whose blocks were taken before. */
#include "base/file_room.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static sw_code fail(const sw_file_room *room, const char *what, int why, sw_error *err) {
    return SW_FAIL(err, SW_IO, "%s: can't %s: %s", room->path, what, strerror(why));
}

static bool map(sw_file_room *room) {
    const int access = PROT_READ | PROT_WRITE;
    room->data = mmap(NULL, room->size, access, MAP_SHARED, room->fd, 0);
    room->mapped = room->data != MAP_FAILED;
    if (!room->mapped) room->data = mmap(NULL, room->size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room->data != MAP_FAILED;
}

sw_code sw_file_room_open(sw_file_room *room, const char *path, uint64_t size, sw_error *err) {
    *room = (sw_file_room){.path = path, .size = size};
    sw_code code = SW_OK;
    int full = 0;
    if ((room->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        code = fail(room, "create", errno, err);
    else if ((full = posix_fallocate(room->fd, 0, (off_t)size)) != 0)
        code = fail(room, "write", full, err);
    else if (!map(room))
        code = SW_FAIL(err, SW_NO_MEMORY, "%s: no memory for %llu bytes", path, (unsigned long long)size);
    if (code == SW_OK) return SW_OK;
    if (room->fd >= 0) close(room->fd);
    *room = (sw_file_room){0};
    return code;
}

static bool write_all(int fd, const uint8_t *data, uint64_t size) {
    while (size > 0) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n, size -= (uint64_t)n;
    }
    return true;
}

sw_code sw_file_room_finish(sw_file_room *room, uint64_t used, sw_error *err) {
    if ((room->mapped || write_all(room->fd, room->data, used)) &&
        (used == room->size || ftruncate(room->fd, (off_t)used) == 0))
        return SW_OK;
    return fail(room, "write", errno, err);
}

void sw_file_room_close(sw_file_room *room) {
    if (room->data == NULL) return;
#if defined(SYNC_FILE_RANGE_WRITE)
    sync_file_range(room->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* a hint */
#endif
    munmap(room->data, room->size);
    close(room->fd);
    *room = (sw_file_room){0};
}
