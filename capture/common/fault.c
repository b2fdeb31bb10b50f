#include "common/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fail(struct fault *fault, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    return -1;
}

bool is_system_error(const struct fault *fault) {
    static const int errors[] = {EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS};
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; ++i) {
        if (strstr(fault->text, strerror(errors[i]))) {
            return true;
        }
    }
    return false;
}

const char *write_advice(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return "; free some space or write elsewhere";
        case EFBIG:
            return "; raise the limit on file sizes (ulimit -f)";
        case EEXIST:
            return "; remove it or write under another name";
        case EACCES:
        case EPERM:
            return "; write to a directory that this user can write to";
        case ENOENT:
            return "; create the directory first";
        case EISDIR:
            return "; specify a file";
        case EIO:
            return "; the device failed, see dmesg";
        default:
            return "";
    }
}

const char *read_advice(int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return "; specify an existing file";
        case EISDIR:
            return "; specify a file in it";
        case EACCES:
        case EPERM:
            return "; specify a file that this user can read, or chmod u+r";
        default:
            return write_advice(error);
    }
}
