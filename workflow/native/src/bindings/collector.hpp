// Bindings for the collector of flow reports; see acapella_core.collector.
#pragma once

#include <nanobind/nanobind.h>

namespace acapella {

void bind_collector(nanobind::module_& module);

}  // namespace acapella
