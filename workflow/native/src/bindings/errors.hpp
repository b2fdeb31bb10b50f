// The core's exceptions as Python's.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_errors(nanobind::module_& module);

}  // namespace acapella
