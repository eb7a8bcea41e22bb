/* runner.h: one run of the program on the device. */
#ifndef SW_DEPLOY_RUNNER_H
#define SW_DEPLOY_RUNNER_H

#include "deploy/deploy.h"

/* Hands prompts over as files, runs, streams, brings log and figures into log_folder. Errors: as
 * sw_deploy_run. */
sw_code sw_deploy_start_runner(sw_adb *adb, const char *device_dir, const sw_deploy_options *options,
                               const char *log_folder, sw_error *err) SW_MUST_CHECK;

#endif
