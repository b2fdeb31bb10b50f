// Captures merged by time for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_merge(nanobind::module_& module);

}  // namespace acapella
