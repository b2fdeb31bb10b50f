// The consistency of trials for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_consistency(nanobind::module_& module);

}  // namespace acapella
