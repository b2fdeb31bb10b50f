#include "common/eal.h"

#include <limits.h>
#include <rte_eal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Contains the parent of EAL's runtime directory; eal.h states why it is replaced. */
#define RUNTIME_DIRECTORY_VARIABLE "XDG_RUNTIME_DIR"

int eal_start(int count, char **arguments) {
    static const char *const created[] = {"/dpdk/rte", "/dpdk", ""};
    char directory[PATH_MAX], path[PATH_MAX + 16];
    const char *temporary = getenv("TMPDIR"), *previous = getenv(RUNTIME_DIRECTORY_VARIABLE);
    const int length = snprintf(directory, sizeof directory, "%s/acapella-XXXXXX",
                                temporary && *temporary ? temporary : "/tmp");
    const bool own = getuid() != 0 && length < (int)sizeof directory && mkdtemp(directory);
    if (!own) {
        return rte_eal_init(count, arguments);
    }
    char *kept = previous ? strdup(previous) : NULL;
    setenv(RUNTIME_DIRECTORY_VARIABLE, directory, 1);
    const int status = rte_eal_init(count, arguments);
    for (unsigned i = 0; i < sizeof created / sizeof *created; ++i) {
        snprintf(path, sizeof path, "%s%s", directory, created[i]);
        rmdir(path);
    }
    kept ? setenv(RUNTIME_DIRECTORY_VARIABLE, kept, 1) : unsetenv(RUNTIME_DIRECTORY_VARIABLE);
    free(kept);
    return status;
}
