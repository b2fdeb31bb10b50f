#include "bindings/file_info.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "anonymize/pseudonyms/aes.hpp"
#include "bindings/facts.hpp"
#include "input/clock_resolution.hpp"
#include "input/decoder.hpp"

namespace nb = nanobind;

namespace acapella {

namespace {

// Returns the metadata of a capture. Memory use does not depend on the number of flows.
nb::dict scan_capture(const std::string& path, const input::DecompressionLimits& limits) {
    constexpr std::uint64_t kBetweenSignals = 1U << 20U;  // frames
    const auto source = input::ByteSource::open(path, limits);
    const auto reader = input::open_capture(*source);
    input::ClockResolution clock;
    std::uint32_t longest = 0;
    {
        const nb::gil_scoped_release unlocked;
        for (Record record; reader->next(record);) {
            longest = std::max(longest, record.wire_len);
            if (record.timed && plausible(record.ts_ns)) clock.add(record.ts_ns);
            if (record.frame % kBetweenSignals != 0) continue;
            const nb::gil_scoped_acquire locked;  // allows Ctrl-C
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        }
    }
    nb::dict result = file_dict(reader->info());
    result["frames"] = reader->info().records;
    result["clock_resolution_ns"] =
        clock.stamps() > 0 ? nb::object(nb::int_(clock.resolution_ns())) : nb::object(nb::none());
    result["longest_frame_bytes"] =
        reader->info().records > 0 ? nb::object(nb::int_(longest)) : nb::object(nb::none());
    return result;
}

nb::dict features() {
    nb::dict found;
    for (const auto codec : {input::Compression::gzip, input::Compression::zstd, input::Compression::lz4})
        found[input::name_of(codec)] = input::is_supported(codec);
    found["aes"] = anonymize::has_aes();
    return found;
}

}  // namespace

void bind_captures(nb::module_& module) {
    using input::DecompressionLimits;
    nb::class_<DecompressionLimits>(module, "DecompressionLimits", "Limits of decompression")
        .def(nb::init<>())
        .def(
            "__init__",
            [](DecompressionLimits* self, std::uint64_t bytes, std::uint32_t ratio) {
                new (self) DecompressionLimits{.ratio = std::max<std::uint32_t>(ratio, 1), .bytes = bytes};
            },
            nb::arg("bytes"), nb::arg("ratio"))
        .def_ro("bytes", &DecompressionLimits::bytes)
        .def_ro("ratio", &DecompressionLimits::ratio);
    module.def("features", &features,
               "Whether the core was built with the libraries for gzip, zstd, lz4 and AES");
    module.def("scan_capture", &scan_capture, nb::arg("path"), nb::arg("limits") = DecompressionLimits(),
               "Metadata of a capture, as in the summary of a digest without flows");
}

nb::dict file_dict(const input::FileInfo& info) {
    nb::dict file;
    put_file_facts(info, PutIntoDict(file));
    return file;
}

}  // namespace acapella
