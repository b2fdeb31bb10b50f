#include "pipeline/generate.h"

#include <ctype.h>
#include <errno.h>
#include <rte_swx_pipeline.h>
#include <rte_version.h>
#include <stdlib.h>
#include <string.h>

#include "spec/guard.h"
#include "spec/verify.h"

#define MAX_HEADERS                                                                                        \
    65000 /* leaves 535 bytes for the padding that p4_load adds: an mbuf has 16 bits for the offset of its \
             frame */

/* The guarded instructions of a line: entries of `guarded` from index `at`, while `line` is this line. */
struct guarded_line {
    const struct guarded *guarded;
    unsigned at;
};

struct rewrite {
    const struct spec *spec;
    struct guarded *guarded;            /* one per action, then the apply block */
    struct guarded_line *guarded_lines; /* by line; guarded is NULL if the line is not an instruction */
    unsigned blocks;                    /* number of blocks guarded so far */
    unsigned last_line;                 /* last line with an instruction */
    unsigned metadata_line; /* of the metadata struct, until its added field is written; 0: none */
};

static const struct spec_block *block_of(const struct spec *spec, unsigned i) {
    return i < spec->action_count ? &spec->actions[i].body : &spec->apply;
}

static unsigned last_line(const struct spec *spec) {
    unsigned last = 0;
    for (unsigned i = 0; i <= spec->action_count; ++i) {
        const struct spec_block *block = block_of(spec, i);
        for (unsigned j = 0; j < block->count; ++j) {
            last = block->instructions[j].line > last ? block->instructions[j].line : last;
        }
    }
    return last;
}

static int rewrite_make(struct rewrite *rewrite, const struct spec *spec, struct fault *fault) {
    rewrite->guarded = calloc(spec->action_count + 1, sizeof *rewrite->guarded);
    rewrite->last_line = last_line(spec);
    rewrite->guarded_lines = calloc(rewrite->last_line + 1, sizeof *rewrite->guarded_lines);
    if (!rewrite->guarded || !rewrite->guarded_lines) {
        return fail(fault, "%s: out of memory", spec->path);
    }
    for (; rewrite->blocks <= spec->action_count; ++rewrite->blocks) {
        struct guarded *guarded = &rewrite->guarded[rewrite->blocks];
        if (p4_guard(guarded, spec, block_of(spec, rewrite->blocks), fault) != 0) {
            return -1;
        }
        for (unsigned i = guarded->count; i-- > 0;) {
            rewrite->guarded_lines[guarded->line[i]] = (struct guarded_line){guarded, i};
        }
    }
    return 0;
}

static void rewrite_free(struct rewrite *rewrite) {
    for (unsigned i = 0; i < rewrite->blocks; ++i) {
        p4_guarded_free(&rewrite->guarded[i]);
    }
    free(rewrite->guarded);
    free(rewrite->guarded_lines);
}

/* DPDK copies names into the C code unchanged: allow only characters that cannot end a name or a string. */
static int check_text(const struct spec *spec, unsigned line, const char *text, struct fault *fault) {
    for (const char *at = text; *at; ++at) {
        const bool brace = (*at == '{' || *at == '}') && (at == text || isspace((unsigned char)at[-1])) &&
                           (!at[1] || isspace((unsigned char)at[1]));
        if (!isalnum((unsigned char)*at) && !isspace((unsigned char)*at) && !strchr("_.<>@:", *at) &&
            !brace) {
            return p4_spec_fail(spec, line, fault,
                                "character 0x%02x: cannot be compiled; use the interpreter",
                                (unsigned char)*at);
        }
    }
    return 0;
}

static void remove_comment(char *text) {
    for (char *at = text; *at; ++at) {
        if (*at == '#' || *at == ';' || (*at == '/' && at[1] == '/')) {
            *at = '\0';
            return;
        }
    }
}

static int write_line(struct rewrite *rewrite, unsigned line, char *text, FILE *to, struct fault *fault) {
    const struct spec *spec = rewrite->spec;
    const struct guarded_line *guarded_line =
        line <= rewrite->last_line ? &rewrite->guarded_lines[line] : NULL;
    if (guarded_line && guarded_line->guarded) {
        const struct guarded *guarded = guarded_line->guarded;
        for (unsigned i = guarded_line->at; i < guarded->count && guarded->line[i] == line; ++i) {
            if (check_text(spec, line, guarded->texts[i], fault) != 0) {
                return -1;
            }
            fprintf(to, "%s\n", guarded->texts[i]);
        }
        return 0;
    }
    remove_comment(text);
    if (check_text(spec, line, text, fault) != 0) {
        return -1;
    }
    const struct spec_field *last = &spec->metadata->fields[spec->metadata->count - 1];
    if (rewrite->metadata_line && line > rewrite->metadata_line && strchr(text, '}')) {
        fprintf(to, "bit<%u> %s\n", last->bits, last->name);
        rewrite->metadata_line = 0;
    }
    fprintf(to, "%s\n", text);
    return 0;
}

/* Writes the program with its guards. `added`: p4_guard_prepare has added a field to the metadata. */
static int write_guarded(const struct spec *spec, bool added, FILE *to, struct fault *fault) {
    struct rewrite rewrite = {.spec = spec, .metadata_line = added ? spec->metadata->line : 0};
    FILE *from = fopen(spec->path, "r");
    char *text = NULL;
    size_t room = 0;
    int status =
        from ? rewrite_make(&rewrite, spec, fault) : fail(fault, "%s: %s", spec->path, strerror(errno));
    for (unsigned line = 1; status == 0 && getline(&text, &room, from) >= 0; ++line) {
        status = write_line(&rewrite, line, text, to, fault);
    }
    free(text);
    rewrite_free(&rewrite);
    if (from) {
        fclose(from);
    }
    return status;
}

/* A mirrored frame is copied into an mbuf of a mempool, but the loader's frames have no mempool. */
static int check_mirror(const struct spec *spec, struct fault *fault) {
    for (unsigned i = 0; i <= spec->action_count; ++i) {
        const struct spec_block *block = block_of(spec, i);
        for (unsigned j = 0; j < block->count; ++j) {
            if (strcmp(block->instructions[j].word[0], "mirror") == 0) {
                return p4_spec_fail(spec, block->instructions[j].line, fault,
                                    "mirror: cannot be compiled; use the interpreter");
            }
        }
    }
    return 0;
}

static int generate(const struct spec *spec, bool added, FILE *to, struct fault *fault) {
    FILE *guarded = tmpfile();
    if (!guarded) {
        return fail(fault, "%s: cannot create a temporary file: %s", spec->path, strerror(errno));
    }
    int status = write_guarded(spec, added, guarded, fault);
    uint32_t line = 0;
    const char *reason = NULL;
    if (status == 0) {
        rewind(guarded);
        fprintf(to, "/* %s */\n", rte_version());
        if (rte_swx_pipeline_codegen(guarded, to, &line, &reason) != 0) {
            status = fail(fault, "%s: DPDK's code generator: %s (line %u)", spec->path,
                          reason ? reason : "failed", line);
        }
    }
    fclose(guarded);
    return status;
}

int p4_generate(const char *path, FILE *to, struct fault *fault) {
    struct spec spec;
    struct verify_limits limits;
    int status = -1;
    if (p4_spec_read(&spec, path, fault) == 0 && p4_verify(&spec, &limits, fault) == 0 &&
        check_mirror(&spec, fault) == 0) {
        const unsigned fields = spec.metadata->count;
        if ((uint64_t)limits.reach + limits.emitted > MAX_HEADERS) {
            fail(fault,
                 "%s: headers of %u bytes read and %u bytes sent: too large to be compiled; use the "
                 "interpreter",
                 path, limits.reach, limits.emitted);
        } else if (p4_guard_prepare(&spec, fault) == 0) {
            status = generate(&spec, spec.metadata->count > fields, to, fault);
        }
    }
    p4_spec_free(&spec);
    return status;
}
