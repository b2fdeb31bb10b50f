// Bindings for engines hybrid and tshark.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_hybrid(nanobind::module_& module);

}  // namespace acapella
