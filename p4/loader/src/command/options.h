/* The command line. */
#ifndef ACAPELLA_P4_OPTIONS_H
#define ACAPELLA_P4_OPTIONS_H

#include <sys/types.h>

#include "acapella_p4.h"
#include "common/files/format.h"

struct options {
    const char *spec;
    const char *library;      /* compiled pipeline of the program; NULL to interpret it */
    const char *generated;    /* write the program's C code to this path and exit; NULL to run it */
    const char *in[P4_PORTS]; /* "-": standard input */
    int descriptor[P4_PORTS]; /* open descriptor of a capture; -1 to open its path */
    int end[P4_PORTS]; /* one byte can be read from this descriptor if the capture is complete; -1 if none */
    unsigned ins;
    pid_t parent;    /* exit with this process, the parent; 0 if none */
    const char *out; /* PATH.pcap or PATH.pcapng; NULL if none */
    const struct format *format;
    const char *control[P4_PORTS];
    unsigned controls;
    const char *statistics; /* NULL if none */
    const char *registers;  /* NULL for no dump */
    const char *frames;     /* NULL if none */
    const char *interface;  /* NULL if none */
    bool commands, pace;
    unsigned burst;
};

/* Returns 0, 1 if help or version was printed, or -1 with the reason in fault. */
int p4_options_read(struct options *options, int argc, char **argv, struct fault *fault);

#endif
