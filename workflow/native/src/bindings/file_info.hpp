// Bindings for the metadata of a capture file.
#pragma once

#include <nanobind/nanobind.h>

#include "input/capture_reader.hpp"

namespace acapella {

// Binds the class DecompressionLimits, and scan_capture().
void bind_captures(nanobind::module_& module);

nanobind::dict file_dict(const input::FileInfo& info);

}  // namespace acapella
