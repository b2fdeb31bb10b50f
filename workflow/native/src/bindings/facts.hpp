// Facts (digest/facts.hpp) as items of a Python dict.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "digest/facts.hpp"

namespace acapella {

class PutIntoDict {
  public:
    explicit PutIntoDict(nanobind::dict& result) : result_(result) {}

    template <typename Value>
    void operator()(const char* name, const Value& value) const {
        result_[name] = nanobind::cast(value);
    }
    void operator()(const char* name, const NamedCounts& counts) const {
        nanobind::dict by_name;
        for (const auto& [key, count] : counts) by_name[nanobind::str(key.c_str())] = count;
        result_[name] = by_name;
    }

  private:
    nanobind::dict& result_;
};

}  // namespace acapella
