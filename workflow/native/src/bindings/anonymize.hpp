#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_anonymize(nanobind::module_& module);

}  // namespace acapella
