/* Starts DPDK's Environment Abstraction Layer (EAL) without leaving files behind. */
#ifndef ACAPELLA_EAL_H
#define ACAPELLA_EAL_H

#include <stdbool.h>

#include "common/fault.h"

#define EAL_DEVICES 16

/* Calls rte_eal_init. EAL creates an empty runtime directory even if it does not need one. For users other
 * than root without XDG_RUNTIME_DIR, this is /tmp/dpdk, to which only the first user can write. Therefore,
 * for users other than root, EAL gets a new directory in TMPDIR or /tmp, which is removed after the start. */
int eal_start(int count, char **arguments);

/* Devices, threads and memory of EAL. */
struct eal_settings {
    const char *program;
    const char *vdev[EAL_DEVICES]; /* as for --vdev of EAL */
    unsigned vdevs;
    const char *pci[EAL_DEVICES];
    unsigned pcis;
    unsigned threads; /* besides the main thread: lcores 1, 2, ... */
    char *cpus;       /* CPUs of these threads, comma-separated; NULL for those of the process */
    bool huge;
    unsigned memory_mb; /* without huge pages, in MiB */
    char **more;        /* further arguments for EAL */
    int more_count;
};

/* Starts EAL. The main thread may run on all CPUs of the list (`cpus`, or those of the process); each other
 * thread is bound to one. Without `cpus`, the first CPU is left to the main thread if there are enough. Call
 * it only once, with strings that stay valid: EAL keeps pointers to them. */
int eal_start_threads(const struct eal_settings *settings, struct fault *fault);

#endif
