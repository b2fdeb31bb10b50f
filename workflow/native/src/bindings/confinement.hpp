// Bindings for acapella_core.confinement.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_confinement(nanobind::module_& module);

}  // namespace acapella
