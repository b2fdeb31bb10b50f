// Opens a directory below another one without following links.
#pragma once

#include <string>

namespace acapella::confine {

// A descriptor of the directory at `path`, relative to the open directory `descriptor`: no component is a
// symbolic link, and none leaves that directory (openat2(2), Linux 5.6). -1 and errno if there is none;
// ENOSYS without openat2.
int open_beneath(int descriptor, const std::string& path);

}  // namespace acapella::confine
