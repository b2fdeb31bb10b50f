// The digest for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "digest/front_end.hpp"
#include "digest/ledger.hpp"

namespace acapella {

// The whole-sample facts as a dict of integers, texts and dicts of them.
nanobind::dict summary_dict(const Ledger& ledger, const FrontEnd& front);

void bind_digest(nanobind::module_& module);

}  // namespace acapella
