/* memory.h: what memory this process and its children have in use, as the system counts it. */
#ifndef SW_BASE_MEMORY_H
#define SW_BASE_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

/* This process's highest resident set, bytes: so far, or since the last restart. */
uint64_t sw_peak_memory_bytes(void);

/* Lets the peak start anew from what is resident now, where the system can do that. */
void sw_peak_memory_restart(void);

/* What a process has resident; pages that it shares with others count here as well. 0 for one that is gone.
 */
uint64_t sw_process_memory_bytes(pid_t process);

/* The highest sum of that over this process and some others at the same moment, from samples in a thread of
 * its own. Shared pages count in each: no less than what is in use. Processes are added as they start and
 * taken out before they are waited for. */
typedef struct sw_memory_watch sw_memory_watch;

sw_memory_watch *sw_memory_watch_start(void); /* NULL where there is no memory or no thread for it */
void sw_memory_watch_add(sw_memory_watch *watch, pid_t process);
void sw_memory_watch_remove(sw_memory_watch *watch, pid_t process);

/* The highest sum since the last call, bytes. 0 where nothing was added. */
uint64_t sw_memory_watch_take_peak(sw_memory_watch *watch);
void sw_memory_watch_stop(sw_memory_watch *watch); /* NULL is allowed, as for all above */

/* Gives back to the system what the heap keeps of freed memory. */
void sw_memory_trim(void);

/* Processor seconds of all threads of this process so far. */
double sw_cpu_seconds(void);

#endif
