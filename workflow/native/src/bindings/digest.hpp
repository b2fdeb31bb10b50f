// Bindings for engine native.
#pragma once

#include <nanobind/nanobind.h>

#include "digest/digest_builder.hpp"
#include "digest/frame_reader.hpp"

namespace acapella {

// Returns the summary of a sample as a dict.
nanobind::dict summary_dict(const DigestBuilder& builder, const FrameReader& reader);

void bind_digest(nanobind::module_& module);

}  // namespace acapella
