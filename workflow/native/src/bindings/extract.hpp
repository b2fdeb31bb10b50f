// Bindings for the extraction of frames.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_extract(nanobind::module_& module);

}  // namespace acapella
