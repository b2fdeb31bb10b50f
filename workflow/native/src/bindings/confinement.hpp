// acapella_core.confinement, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_confinement(nanobind::module_& module);

}  // namespace acapella
