#include "port/environment.h"

#include "port/generator.h"

#define MB (1024ULL * 1024)

struct port_settings port_settings_of(const struct options *options) {
    const struct eal_settings *eal = &options->eal;
    return (struct port_settings){
        .device = options->generate ? GENERATOR_PORT
                  : eal->pcis       ? eal->pci[0]
                                    : eal->vdev[0],
        .physical = eal->pcis > 0,
        .queues = options->queues,
        .depth = options->depth,
        .burst = options->burst,
        .max_frame = options->max_frame,
        .clock = options->clock,
    };
}

static unsigned memory_mb(const struct options *options) {
    const struct port_settings port = port_settings_of(options);
    const uint64_t extra = 2 * generator_memory(options) + options->p4_memory;
    return options->eal.memory_mb ? options->eal.memory_mb
                                  : receive_port_memory_mb(&port) + (unsigned)(64 + extra / MB);
}

int port_start_eal(const struct options *options, struct fault *fault) {
    struct eal_settings settings = options->eal;
    settings.program = PROGRAM;
    settings.threads = options->queues + (options->generate > 0);
    settings.memory_mb = memory_mb(options);
    return eal_start_threads(&settings, fault);
}
