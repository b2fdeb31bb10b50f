// Batches of both tables for Python: code shared by all digest classes. The GIL is released while batches are
// created.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "bindings/arrow_batch.hpp"

namespace acapella {

// For functions that read or write files: the other end of a pipe may belong to another Python thread.
using ReleasesGil = nanobind::call_guard<nanobind::gil_scoped_release>;

template <typename Digest>
std::optional<ArrowBatch> next_batch(Digest& digest) {
    const nanobind::gil_scoped_release unlocked;
    if (auto batch = digest.next_frames()) return ArrowBatch(std::move(*batch));
    return std::nullopt;
}

template <typename Digest>
class PyBatches {
  public:
    template <typename... Arguments>
    requires std::is_constructible_v<Digest, Arguments...>
    explicit PyBatches(Arguments&&... arguments) : digest_(std::forward<Arguments>(arguments)...) {}
    PyBatches(const PyBatches&) = delete;
    PyBatches& operator=(const PyBatches&) = delete;

    std::optional<ArrowBatch> next_frames() { return next_batch(digest_); }
    ArrowBatch flow_rows(std::uint32_t first, std::uint32_t count) const {
        const nanobind::gil_scoped_release unlocked;
        return ArrowBatch(digest_.flow_rows(first, count));
    }

  protected:
    Digest digest_;
};

// Binds the methods of PyBatches.
template <typename Digest>
void def_batches(nanobind::class_<Digest>& bound) {
    bound
        .def(
            "next_frames", [](Digest& digest) { return digest.next_frames(); },
            "The next batch of the frame table; None at the end")
        .def(
            "flow_rows",
            [](const Digest& digest, std::uint32_t first, std::uint32_t count) {
                return digest.flow_rows(first, count);
            },
            nanobind::arg("first"), nanobind::arg("count"),
            "Rows of the flow table; call after the last frame")
        .def_prop_ro("flows", &Digest::flows);
}

}  // namespace acapella
