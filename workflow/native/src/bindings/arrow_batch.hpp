// A record batch for Python: anything that knows the Arrow PyCapsule interface takes it without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include "columns/column.hpp"

namespace acapella {

class ArrowBatch {
  public:
    explicit ArrowBatch(Batch batch) : batch_(std::move(batch)) {}

    std::int64_t rows() const { return batch_.columns.length; }
    // (schema, array) as capsules; the array keeps the buffers, so this object need not live on.
    nanobind::tuple arrow_c_array() const;

  private:
    Batch batch_;
};

void bind_arrow_batch(nanobind::module_& module);

}  // namespace acapella
