// A record batch for Python, with the Arrow PyCapsule interface (zero copy).
#pragma once

#include <nanobind/nanobind.h>

#include "columns/column.hpp"

namespace acapella {

class ArrowBatch {
  public:
    explicit ArrowBatch(Batch batch) : batch_(std::move(batch)) {}

    std::int64_t rows() const { return batch_.columns.length; }
    // Returns (schema, array) as capsules; the array keeps the buffers alive.
    nanobind::tuple arrow_c_array() const;

  private:
    Batch batch_;
};

void bind_arrow_batch(nanobind::module_& module);

}  // namespace acapella
