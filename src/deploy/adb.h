/* adb.h: the adb program: a device's shell and files. */
#ifndef SW_DEPLOY_ADB_H
#define SW_DEPLOY_ADB_H

#include <stdbool.h>

#include "base/arena.h"
#include "deploy/process.h"

typedef struct sw_adb {
    const char *program, *host, *serial; /* host and serial may be NULL */
    bool shell_v2;  /* the device's shell keeps stderr and exit status apart (Android 7 and later) */
    sw_arena arena; /* what calls leave */
} sw_adb;

/* program NULL: $ADB, else "adb" in PATH. Checks that there is one device that takes orders. Errors:
 * SW_NOT_FOUND (no adb; what to install), SW_IO with one of failures.inc's sentences. */
sw_code sw_adb_open(sw_adb *adb, const char *program, const char *host, const char *serial,
                    sw_error *err) SW_MUST_CHECK;
void sw_adb_close(sw_adb *adb);

/* Runs a command line in the device's shell; its words must be quoted for there (words.h). *out: what it
 * wrote to stdout, in adb's arena; *status: its exit status. Errors: SW_IO where adb failed, not where the
 * command did. */
sw_code sw_adb_shell(sw_adb *adb, const char *command, const char **out, int *status,
                     sw_error *err) SW_MUST_CHECK;

/* As above; a status other than 0 is an error too, whose sentence begins with `doing`. */
sw_code sw_adb_shell_ok(sw_adb *adb, const char *command, const char *doing, const char **out,
                        sw_error *err) SW_MUST_CHECK;

/* Hands on what the command writes, as it comes. Without shell_v2 stderr is to be redirected by the command.
 * Errors: the sinks'. Whether adb or the command failed is for the caller to find out. */
sw_code sw_adb_stream(sw_adb *adb, const char *command, sw_process_sink *out, sw_process_sink *errors,
                      void *context, int *adb_status, sw_error *err) SW_MUST_CHECK;

/* Files; both paths are taken as they are. */
sw_code sw_adb_push(sw_adb *adb, const char *local, const char *remote, sw_error *err) SW_MUST_CHECK;
sw_code sw_adb_pull(sw_adb *adb, const char *remote, const char *local, sw_error *err) SW_MUST_CHECK;

#endif
