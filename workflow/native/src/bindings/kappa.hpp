// The consistency of trials for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_kappa(nanobind::module_& module);

}  // namespace acapella
