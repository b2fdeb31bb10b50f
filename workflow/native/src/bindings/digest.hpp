// Bindings of engine native.
#pragma once

#include <nanobind/nanobind.h>

#include "digest/digest_builder.hpp"
#include "digest/frame_reader.hpp"

namespace acapella {

// The summary of a sample as a dict of integers, texts and dicts of them.
nanobind::dict summary_dict(const DigestBuilder& builder, const FrameReader& reader);

void bind_digest(nanobind::module_& module);

}  // namespace acapella
