#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_anonymise(nanobind::module_& module);

}  // namespace acapella
