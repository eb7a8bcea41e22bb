/* cpu.h: the CPU device: executes float graphs (the reference, and what calibrates) and quantized graphs,
 * with the integer semantics of Qualcomm's HTP emulator (docs/numerics.md). */
#ifndef SW_CPU_CPU_H
#define SW_CPU_CPU_H

#include "base/threads.h"
#include "device/device.h"

/* The pool is borrowed for the device's life; NULL runs on the caller's thread. */
sw_code sw_cpu_device_create(sw_device **out, sw_pool *pool, sw_error *err) SW_MUST_CHECK;

#endif
