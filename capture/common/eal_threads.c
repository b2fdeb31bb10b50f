#include <rte_common.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/eal.h"

#define FIXED_ARGUMENTS_MAX 12 /* EAL arguments other than devices and arguments of the command line */
#define MORE_ARGUMENTS_MAX 64

/* Returns the first CPU of a list that this machine does not have, or -1. */
static long missing_cpu(const unsigned *cpu, unsigned count) {
    const long present = sysconf(_SC_NPROCESSORS_CONF);
    for (unsigned i = 0; i < count; ++i) {
        if (present > 0 && cpu[i] >= (unsigned long)present) {
            return cpu[i];
        }
    }
    return -1;
}

/* Lists the usable CPUs: those of --cpus, or those of the process. Returns their number. */
static unsigned usable_cpus(const struct eal_settings *settings, unsigned *cpu, unsigned max_cpus) {
    unsigned count = 0;
    if (settings->cpus) {
        for (char *at = settings->cpus; *at && count < max_cpus; at += *at == ',') {
            char *end = at;
            cpu[count] = (unsigned)strtoul(at, &end, 10);
            if (end == at || (*end && *end != ',')) {
                return 0;
            }
            ++count;
            at = end;
        }
        return count;
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (unsigned i = 0; i < CPU_SETSIZE && count < max_cpus; ++i) {
            if (CPU_ISSET(i, &set)) {
                cpu[count++] = i;
            }
        }
    }
    return count;
}

static int thread_map(char *to, size_t size, const struct eal_settings *settings, struct fault *fault) {
    unsigned cpu[256];
    const unsigned cpus = usable_cpus(settings, cpu, RTE_DIM(cpu));
    if (cpus == 0) {
        return settings->cpus ? fail(fault, "--cpus %s: not a list of CPU numbers, as in 1,2", settings->cpus)
                              : fail(fault, "the CPUs of this process are unknown; specify them with --cpus");
    }
    const long missing = settings->cpus ? missing_cpu(cpu, cpus) : -1;
    if (missing >= 0) {
        return fail(fault, "--cpus %s: this machine has no CPU %ld; nproc --all prints the number of CPUs",
                    settings->cpus, missing);
    }
    const unsigned skip = !settings->cpus && cpus > settings->threads ? 1 : 0;
    size_t used = (size_t)snprintf(to, size, "--lcores=0@(");
    for (unsigned i = 0; i < cpus && used < size; ++i) {
        used += (size_t)snprintf(to + used, size - used, "%s%u", i ? "," : "", cpu[i]);
    }
    used += (size_t)snprintf(to + used, size - used, ")");
    for (unsigned i = 0; i < settings->threads && used < size; ++i) {
        used += (size_t)snprintf(to + used, size - used, ",%u@%u", i + 1, cpu[(i + skip) % cpus]);
    }
    return used < size ? 0 : fail(fault, "--cpus: too many; use fewer");
}

static void add(char **arguments, int *count, const char *word) {
    arguments[(*count)++] = (char *)(uintptr_t)word;
}

int eal_start_threads(const struct eal_settings *settings, struct fault *fault) {
    /* static: EAL keeps pointers into them */
    static char map[8192], memory[16];
    static char *arguments[FIXED_ARGUMENTS_MAX + 4 * EAL_DEVICES + MORE_ARGUMENTS_MAX];
    int count = 0;
    if (settings->more_count > MORE_ARGUMENTS_MAX) {
        return fail(fault, "EAL: more than %d arguments after --; use fewer", MORE_ARGUMENTS_MAX);
    }
    if (thread_map(map, sizeof map, settings, fault) != 0) {
        return -1;
    }
    snprintf(memory, sizeof memory, "%u", settings->memory_mb);
    /* Create no files in /run/dpdk or hugetlbfs: a killed process would leave them behind. */
    const char *fixed[] = {settings->program, map, settings->huge ? "--in-memory" : "--no-shconf",
                           "--no-telemetry", "--log-level=*:warning"};
    for (unsigned i = 0; i < RTE_DIM(fixed); ++i) {
        add(arguments, &count, fixed[i]);
    }
    if (!settings->huge) {
        add(arguments, &count, "--no-huge");
        add(arguments, &count, "-m");
        add(arguments, &count, memory);
    }
    if (settings->pcis == 0) {
        add(arguments, &count, "--no-pci");
    }
    for (unsigned i = 0; i < settings->pcis && i < EAL_DEVICES; ++i) {
        add(arguments, &count, "-a");
        add(arguments, &count, settings->pci[i]);
    }
    for (unsigned i = 0; i < settings->vdevs && i < EAL_DEVICES; ++i) {
        add(arguments, &count, "--vdev");
        add(arguments, &count, settings->vdev[i]);
    }
    for (int i = 0; i < settings->more_count; ++i) {
        add(arguments, &count, settings->more[i]);
    }
    rte_openlog_stream(stderr);
    if (eal_start(count, arguments) < 0) {
        return fail(fault,
                    "EAL: %s; see the lines above, the device's arguments, and whether this user may use it",
                    rte_strerror(rte_errno));
    }
    return 0;
}
