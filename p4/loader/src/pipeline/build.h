/* Builds a DPDK pipeline from a .spec with DPDK's public functions. */
#ifndef ACAPELLA_P4_BUILD_H
#define ACAPELLA_P4_BUILD_H

#include <rte_swx_pipeline.h>

#include "spec/spec.h"

/* Ports of a pipeline: the functions of input and output ports, and one argument for each port. */
struct build_ports {
    struct rte_swx_port_in_ops *in;
    struct rte_swx_port_out_ops *out;
    void **in_arguments, **out_arguments;
    unsigned in_count, out_count;
};

/* Returns the EAL memory that the pipeline needs, in bytes. */
uint64_t p4_build_memory(const struct spec *spec);

/* Returns NULL with the reason in fault on error. */
struct rte_swx_pipeline *p4_build(const struct spec *spec, const struct build_ports *ports,
                                  struct fault *fault);

#endif
