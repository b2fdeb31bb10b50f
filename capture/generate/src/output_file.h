/* Writes the packets of a model to a pcap with timestamps in ns. */
#ifndef ACAPELLA_GENERATE_OUTPUT_FILE_H
#define ACAPELLA_GENERATE_OUTPUT_FILE_H

#include "model.h"

/* The file is complete or absent. Returns 0, or -1 with the reason in fault. */
int output_file_write(struct model *model, const char *path, int64_t start_ns, struct fault *fault);

#endif
