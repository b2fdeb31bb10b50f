// Opens a directory below another one without following links.
#pragma once

#include <string>

namespace acapella::confine {

// Returns a descriptor of the directory at `path`, relative to the open directory `descriptor`: no component
// may be a symbolic link or leave that directory (openat2(2), Linux 5.6). -1 and errno on failure; ENOSYS
// without openat2.
int open_beneath(int descriptor, const std::string& path);

}  // namespace acapella::confine
