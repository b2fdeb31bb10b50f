#include "bindings/extract.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/batches.hpp"
#include "extract/extraction.hpp"

namespace nb = nanobind;

namespace acapella {

using extract::Extraction;
using extract::OutputFormat;
using extract::SelectedFrame;

namespace {

Bytes bytes_of(const nb::bytes& text) {
    return {reinterpret_cast<const std::byte*>(text.c_str()), text.size()};
}

template <typename Integer>
std::vector<Integer> integers(const nb::bytes& text) {
    std::vector<Integer> values(text.size() / sizeof(Integer));
    std::memcpy(values.data(), text.c_str(), values.size() * sizeof(Integer));
    return values;
}

// Converts the columns frame, ts_ns, wire_len and cap_len of an acap, each stored as bytes.
std::vector<SelectedFrame> selected_frames(const nb::bytes& frames, const nb::bytes& times,
                                           const nb::bytes& wire_lens, const nb::bytes& cap_lens) {
    const auto numbers = integers<std::uint64_t>(frames);
    const auto ts_ns = integers<std::int64_t>(times);
    const auto wire_len = integers<std::uint32_t>(wire_lens);
    const auto cap_len = integers<std::uint32_t>(cap_lens);
    if (ts_ns.size() != numbers.size() || wire_len.size() != numbers.size() ||
        cap_len.size() != numbers.size())
        throw std::invalid_argument("columns of different lengths");
    std::vector<SelectedFrame> selected;
    selected.reserve(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] <= (i == 0 ? 0 : numbers[i - 1]))
            throw std::invalid_argument("frame numbers must be at least 1 and increase");
        selected.push_back({numbers[i], ts_ns[i], wire_len[i], cap_len[i]});
    }
    return selected;
}

void add(Extraction& extraction, const std::string& path, const std::optional<nb::bytes>& encoded,
         const std::vector<SelectedFrame>& frames, const input::DecompressionLimits& limits) {
    std::optional<input::Positions> positions;
    if (encoded) positions = input::decode_positions(bytes_of(*encoded), path);
    const nb::gil_scoped_release unlocked;
    extraction.add(path, positions ? &*positions : nullptr, frames, limits, [] {
        const nb::gil_scoped_acquire locked;  // allows Ctrl-C
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
}

}  // namespace

void bind_extract(nb::module_& module) {
    module.def(
        "longest_without_start",
        [](const nb::bytes& positions, const std::string& name) {
            return input::decode_positions(bytes_of(positions), name).longest_without_start();
        },
        nb::arg("positions"), nb::arg("name"),
        "Largest number of decompressed bytes of a capture between places where decompression can begin");
    nb::class_<Extraction>(module, "Extraction", "Copies selected frames: see acapella.campaign.extract")
        .def(
            "__init__",
            [](Extraction* self, int descriptor, bool pcap) {
                new (self) Extraction(descriptor, pcap ? OutputFormat::pcap : OutputFormat::pcapng);
            },
            nb::arg("descriptor"), nb::arg("pcap"))
        .def(
            "add",
            [](Extraction& extraction, const std::string& path, const std::optional<nb::bytes>& positions,
               const nb::bytes& frames, const nb::bytes& ts_ns, const nb::bytes& wire_len,
               const nb::bytes& cap_len, const input::DecompressionLimits& limits) {
                add(extraction, path, positions, selected_frames(frames, ts_ns, wire_len, cap_len), limits);
            },
            nb::arg("path"), nb::arg("positions").none(), nb::arg("frames"), nb::arg("ts_ns"),
            nb::arg("wire_len"), nb::arg("cap_len"), nb::arg("limits"))
        .def("finish", &Extraction::finish, ReleasesGil(),
             "Write the rest of the output; false if writing failed")
        .def_prop_ro("error_number", &Extraction::error_number);
}

}  // namespace acapella
