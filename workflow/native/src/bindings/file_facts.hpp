// What a reader says of a file, for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "input/capture_reader.hpp"

namespace acapella {

nanobind::dict file_dict(const input::FileFacts& facts);

}  // namespace acapella
