/* interrupt.h: what is undone when the program is told to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE):
 * files and folders that are half written, and programs that were started. Then the signal does what it would
 * have done, so that the exit status is its own.
 *
 * Whoever makes such a thing lists it, holding signals meanwhile, and takes it off the list when it is done
 * or gone. Any thread. */
#ifndef SW_BASE_INTERRUPT_H
#define SW_BASE_INTERRUPT_H

#include <sys/types.h>

/* For programs, before there are threads. A signal that is ignored stays so (nohup). */
void sw_interrupt_catch(void);

/* In a process that was forked: it ends as if nothing had been caught, and undoes nothing of its parent's. */
void sw_interrupt_forget(void);

/* Each returns the entry for sw_interrupt_drop; 0 where the list is full, which drop takes too. Paths are
 * borrowed until then. */
int sw_interrupt_add_file(const char *path);
int sw_interrupt_add_folder(const char *path);       /* the files in it, and the folder */
int sw_interrupt_add_empty_folder(const char *path); /* the folder, where nothing is left in it */
int sw_interrupt_add_process(pid_t pid);             /* gets SIGTERM */
void sw_interrupt_drop(int entry);

/* A step that must be done or not done: between these two calls a signal waits. They nest. */
void sw_interrupt_hold(void);
void sw_interrupt_release(void);

#endif
