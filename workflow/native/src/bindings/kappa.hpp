// Bindings for acapella_core.kappa.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_kappa(nanobind::module_& module);

}  // namespace acapella
