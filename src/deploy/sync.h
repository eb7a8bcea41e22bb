/* sync.h: brings files to a device's folder, and only those that it doesn't have. */
#ifndef SW_DEPLOY_SYNC_H
#define SW_DEPLOY_SYNC_H

#include "deploy/adb.h"
#include "deploy/files.h"

/* Makes the folder, with bin, lib, bundle and run in it, and marks it as ours. A folder that holds something
 * else is refused: what isn't wanted in ours gets deleted. Errors: SW_INVALID_ARGUMENT (the path, that
 * folder), SW_IO. */
sw_code sw_sync_open_folder(sw_adb *adb, const char *device_dir, sw_error *err) SW_MUST_CHECK;

/* Deletes the folder; one that isn't ours is left alone. */
sw_code sw_sync_remove_folder(sw_adb *adb, const char *device_dir, sw_error *err) SW_MUST_CHECK;

/* Afterwards bin, lib and bundle hold these files and no others. What the device has with the right SHA-256
 * isn't sent. A file arrives under another name, is checked there, and all are renamed together: a push that
 * breaks off leaves no half file that counts. *sent_bytes: what went over. Errors: SW_IO, and SW_BAD_DATA
 * where a local file isn't what its bundle says. */
sw_code sw_sync_files(sw_adb *adb, const char *device_dir, const sw_deploy_files *files, uint64_t *sent_bytes,
                      sw_error *err) SW_MUST_CHECK;

#endif
