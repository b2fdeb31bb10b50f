// Engines hybrid and tshark for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_hybrid(nanobind::module_& module);

}  // namespace acapella
