/* The command line. */
#ifndef ACAPELLA_P4_OPTIONS_H
#define ACAPELLA_P4_OPTIONS_H

#include <sys/types.h>

#include "acapella_p4.h"
#include "common/files/format.h"

struct options {
    const char *spec;
    const char *library;      /* compiled pipeline of the program; NULL: interpret */
    const char *generated;    /* write the program's C code to this path and exit; NULL: run */
    const char *in[P4_PORTS]; /* "-": standard input */
    int descriptor[P4_PORTS]; /* open descriptor of a capture; -1: open its path */
    int end[P4_PORTS];        /* a byte is read from this descriptor after a complete capture; -1: none */
    unsigned ins;
    pid_t parent;    /* exit with this process, the parent; 0: with none */
    const char *out; /* PATH.pcap or PATH.pcapng; NULL: none */
    const struct format *format;
    const char *control[P4_PORTS];
    unsigned controls;
    const char *statistics; /* NULL: none */
    const char *registers;  /* NULL: no dump */
    const char *frames;     /* NULL: none */
    const char *interface;  /* NULL: none */
    bool commands, pace;
    unsigned burst;
};

/* 0; 1: help or version was printed; -1: see fault. */
int p4_options_read(struct options *options, int argc, char **argv, struct fault *fault);

#endif
