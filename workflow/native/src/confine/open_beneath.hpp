// Opens a directory below another one without following symbolic links.
#pragma once

#include <string>

namespace acapella::confine {

// Returns a descriptor of the directory at `path`, relative to the open directory `descriptor`. No component
// may be a symbolic link or leave that directory (openat2(2), Linux 5.6). On failure, returns -1 and sets
// errno; ENOSYS without openat2.
int open_beneath(int descriptor, const std::string& path);

}  // namespace acapella::confine
