// Bindings for merging captures by time.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_merge(nanobind::module_& module);

}  // namespace acapella
